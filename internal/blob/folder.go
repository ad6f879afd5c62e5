package blob

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// folder keeps each object in a file.
type folder string

func openFolder(path string) (folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the folder for blobs: %w", err)
	}
	return folder(path), nil
}

func (f folder) String() string { return "the folder " + string(f) }

func (f folder) put(_ context.Context, key string, content []byte) error {
	return os.WriteFile(filepath.Join(string(f), key), content, 0o600)
}

func (f folder) get(_ context.Context, key string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), key))
}

func (f folder) remove(_ context.Context, key string) error {
	return os.Remove(filepath.Join(string(f), key))
}
