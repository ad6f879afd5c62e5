package buildah

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrDisk is returned for a build that used more disk space than its limit.
var ErrDisk = errors.New("it used too much disk space")

// A diskUse measures how much a build has written to the store.
type diskUse struct {
	store  *Store
	before map[string]bool // layers that were there before
}

// layers is the folder of the store with one folder for each layer of images and containers.
func (s *Store) layers() string { return filepath.Join(s.dir, "storage", "vfs", "dir") }

// measureDisk starts to measure. Only one build runs at a time.
func (s *Store) measureDisk() *diskUse {
	u := &diskUse{store: s, before: map[string]bool{}}
	entries, _ := os.ReadDir(s.layers())
	for _, e := range entries {
		u.before[e.Name()] = true
	}
	return u
}

// bytes returns how much disk space new layers and temporary files have, without those of containers that [Store.Run]
// uses. It returns 0 while such a container is created.
func (u *diskUse) bytes() (n int64) {
	if !u.store.creating.TryLock() {
		return 0
	}
	defer u.store.creating.Unlock()
	ours := u.store.ownLayers()
	entries, _ := os.ReadDir(u.store.layers())
	for _, e := range entries {
		if !u.before[e.Name()] && !ours[e.Name()] {
			n += sizeOf(filepath.Join(u.store.layers(), e.Name()))
		}
	}
	return n + sizeOf(filepath.Join(u.store.dir, "tmp"))
}

// ownLayers returns the layers of the containers that [Store.NewContainer] has created.
func (s *Store) ownLayers() map[string]bool {
	ours := map[string]bool{}
	text, err := os.ReadFile(filepath.Join(s.dir, "storage", "vfs-containers", "containers.json"))
	if err != nil {
		return ours
	}
	var list []struct {
		ID, Layer string
		Names     []string
	}
	if json.Unmarshal(text, &list) != nil {
		return ours
	}
	for _, c := range list {
		if s.isOwn(append(c.Names, c.ID)...) {
			ours[c.Layer] = true
		}
	}
	return ours
}

// isOwn reports whether NewContainer has created a container with one of these names.
func (s *Store) isOwn(names ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool { return s.containers[name] })
}

// sizeOf returns the disk space of a folder. Files that vanish meanwhile do not count.
func sizeOf(folder string) (n int64) {
	filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if about, err := e.Info(); err == nil {
			if stat, ok := about.Sys().(*syscall.Stat_t); ok {
				n += stat.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// removeStopped removes the container of a build that was killed, which would keep its disk space.
func (s *Store) removeStopped(ctx context.Context) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	text, err := s.output(ctx, "containers", "--json")
	if err != nil {
		return err
	}
	var list []struct{ ID, ContainerName string }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, c := range list {
		if s.isOwn(c.ID, c.ContainerName) {
			continue
		}
		if _, err := s.output(ctx, "rm", c.ID); err != nil {
			return err
		}
	}
	_, err = s.output(ctx, "rmi", "--prune")
	return err
}
