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
	// diskEvery is how often it is checked whether a disk is about to be full.
	diskEvery = time.Minute
	// lowPart and lowBytes are when a disk counts as such: less than a tenth of it is available, and less
	// than that many bytes.
	lowPart, lowBytes = 10, 10 << 30
)

// The disks that the server writes to.
const (
	databaseDisk = "database"
	blobsDisk    = "blobs"
)

// A disk is the file system that a folder is on.
type disk struct{ name, folder string }

// space is how many bytes a disk has, and how many of them this process can still write.
type space struct{ available, size uint64 }

// disksOf returns the disks that an installation is on: none for PostgreSQL and a bucket.
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
	if os.Geteuid() == 0 { // may use what is reserved
		free = uint64(stat.Bfree)
	}
	block := uint64(stat.Bsize)
	return space{available: free * block, size: uint64(stat.Blocks) * block}, nil
}

// low reports whether the disk is about to be full.
func (s space) low() bool { return s.available < min(s.size/lowPart, lowBytes) }

// watchDisks logs when disks are about to be full, until ctx is done.
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

// Describe is part of prometheus.Collector.
func (diskSpace) Describe(to chan<- *prometheus.Desc) {
	to <- availableBytes
	to <- sizeBytes
}

// Collect is part of prometheus.Collector.
func (c diskSpace) Collect(to chan<- prometheus.Metric) {
	for _, d := range c.disks {
		if s, err := d.space(); err == nil {
			to <- prometheus.MustNewConstMetric(availableBytes, prometheus.GaugeValue, float64(s.available), d.name)
			to <- prometheus.MustNewConstMetric(sizeBytes, prometheus.GaugeValue, float64(s.size), d.name)
		}
	}
}
