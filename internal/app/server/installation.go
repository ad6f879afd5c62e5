package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// KeyFingerprint returns the fingerprint of the key that an installation's secrets are sealed with; "" if it has none
// yet.
func KeyFingerprint(ctx context.Context, d *db.DB) (fingerprint string, err error) {
	err = d.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT value FROM installation WHERE name = $1`, fingerprintName).Scan(&fingerprint)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return fingerprint, err
}

// ExistingKey returns the given key, or the one in the data folder. Unlike a server it creates none.
func ExistingKey(s Settings) (seal.Key, error) {
	if s.Key != nil {
		return *s.Key, nil
	}
	path := filepath.Join(s.Data, "secret.key")
	text, err := os.ReadFile(path)
	if err != nil {
		return seal.Key{}, err
	}
	key, err := seal.ParseKey(string(text))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// BlobFolder returns the folder of logs and artifacts; "" if they are in a bucket.
func (s Settings) BlobFolder() string {
	location, err := blob.ParseURL(s.Blobs)
	if err != nil {
		return ""
	}
	return location.Folder()
}

// ListenURL returns the URL of the server on this machine; "" if it picks its port.
func (s Settings) ListenURL() string {
	address, err := net.ResolveTCPAddr("tcp", s.Listen)
	if err != nil || address.Port == 0 {
		return ""
	}
	return listenURL(address, s.servesTLS())
}

// IsFolder returns nil for an existing folder.
func IsFolder(path string) error {
	stat, err := os.Stat(path)
	if err == nil && !stat.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return err
}

// DiskSpace returns the free space and the size of the disk of a folder, in bytes, and whether it is almost full.
func DiskSpace(folder string) (available, size uint64, low bool, err error) {
	s, err := disk{folder: folder}.space()
	return s.available, s.size, s.low(), err
}
