package server

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
)

const (
	// diskEvery is how often the space on disks is checked.
	diskEvery = time.Minute
	// A disk is low if less than a tenth of it and less than lowBytes are available.
	lowPart, lowBytes = 10, 10 << 30
)

// The disks that the server writes to.
const (
	databaseDisk = "database"
	blobsDisk    = "blobs"
)

// A disk is the file system of a folder.
type disk struct{ name, folder string }

// space is the size of a disk and how many bytes this process can still write, in bytes.
type space struct{ available, size uint64 }

// disksOf returns the disks of an installation: none with PostgreSQL and a bucket.
func disksOf(d *db.DB, blobs *blob.Store) (disks []disk) {
	if folder := d.Folder(); folder != "" {
		disks = append(disks, disk{databaseDisk, folder})
	}
	if blobs != nil && blobs.Folder() != "" {
		disks = append(disks, disk{blobsDisk, blobs.Folder()})
	}
	return disks
}

func (d disk) space() (space, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(d.folder, &stat); err != nil {
		return space{}, err
	}
	free := uint64(stat.Bavail)
	if os.Geteuid() == 0 { // root can use reserved space
		free = uint64(stat.Bfree)
	}
	block := uint64(stat.Bsize)
	return space{available: free * block, size: uint64(stat.Blocks) * block}, nil
}

// low reports whether the disk is almost full.
func (s space) low() bool { return s.available < min(s.size/lowPart, lowBytes) }

// watchDisks logs when disks become almost full, until ctx is done.
func watchDisks(ctx context.Context, disks []disk, log *slog.Logger) error {
	low := map[string]bool{}
	every := time.NewTicker(diskEvery)
	defer every.Stop()
	for {
		for _, d := range disks {
			s, err := d.space()
			switch {
			case err != nil:
				log.Warn("read disk space failed", "disk", d.name, "folder", d.folder, "error", err)
			case s.low() && !low[d.name]:
				log.Warn("disk space low", "disk", d.name, "folder", d.folder, "available_bytes", s.available, "size_bytes", s.size)
			}
			low[d.name] = err == nil && s.low()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// diskSpace measures disks when metrics are collected.
type diskSpace struct{ disks []disk }

var (
	availableBytes = prometheus.NewDesc("stackyard_disk_available_bytes", "Bytes that can still be written to a disk of this server.", []string{"disk"}, nil)
	sizeBytes      = prometheus.NewDesc("stackyard_disk_size_bytes", "Size of a disk of this server.", []string{"disk"}, nil)
)

// Describe implements prometheus.Collector.
func (diskSpace) Describe(to chan<- *prometheus.Desc) {
	to <- availableBytes
	to <- sizeBytes
}

// Collect implements prometheus.Collector.
func (c diskSpace) Collect(to chan<- prometheus.Metric) {
	for _, d := range c.disks {
		if s, err := d.space(); err == nil {
			to <- prometheus.MustNewConstMetric(availableBytes, prometheus.GaugeValue, float64(s.available), d.name)
			to <- prometheus.MustNewConstMetric(sizeBytes, prometheus.GaugeValue, float64(s.size), d.name)
		}
	}
}
