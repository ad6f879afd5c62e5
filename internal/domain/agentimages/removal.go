package agentimages

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"stackyard/internal/platform/buildah"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// registryHost is the host of images in the registry, which every server can remove.
const registryHost = "registry"

// removalTaskOf is the kind of the task that removes the real image of a build from a host. Its key is the id of the
// build. Each host has a kind of its own, because only its server can remove what is stored there.
func removalTaskOf(host string) string { return "agent-image-removal:" + host }

func (s *Service) removalTask() string { return removalTaskOf(s.host) }

// removeBuilds removes all builds of an image but one.
func (s *Service) removeBuilds(q *db.Q, imageID, but string) error {
	builds, err := db.All(q, scanBuild, selectBuild+`WHERE image_id = $1 AND id <> $2 ORDER BY id`, imageID, but)
	if err != nil {
		return err
	}
	for _, b := range builds {
		if b.state == removing {
			continue
		}
		if err := s.removeBuild(q, b); err != nil {
			return err
		}
	}
	return nil
}

// removeBuild removes a build, after its real image if there may be one. A build that runs notices that it is not
// needed when it ends.
func (s *Service) removeBuild(q *db.Q, b build) error {
	q.Announce(logTopic(b.id))
	if b.host == "" {
		if _, err := q.Exec(`DELETE FROM agent_image_builds WHERE id = $1`, b.id); err != nil {
			return err
		}
		return tasks.Remove(q, buildTask, b.id)
	}
	if _, err := q.Exec(`UPDATE agent_image_builds SET state = $2, host = $3 WHERE id = $1`, b.id, removing, db.Text(b.host)); err != nil {
		return err
	}
	return tasks.Add(q, tasks.Task{Kind: removalTaskOf(b.host), Key: b.id, RunAt: s.clock()})
}

// runRemoval removes the real image of a build, then the build.
func (s *Service) runRemoval(ctx context.Context, t *tasks.Due) error {
	var b build
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		b, err = db.One(q, scanBuild, selectBuild+`WHERE id = $1`, t.Key)
		return err
	})
	if err != nil || b.state != removing {
		return noRows(err)
	}
	if err := s.removeReal(ctx, b); err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`DELETE FROM agent_image_builds WHERE id = $1 AND state = $2`, b.id, removing)
		return err
	})
}

// removeReal removes the real image of a build, unless another build with the same reference exists: one that was
// started again.
func (s *Service) removeReal(ctx context.Context, b build) error {
	var others int
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		others, err = db.Count(q, `SELECT COUNT(*) FROM agent_image_builds WHERE image_ref = $1 AND id <> $2 AND state <> $3`, b.ref, b.id, removing)
		return err
	})
	if err != nil || others > 0 {
		return err
	}
	if b.host == registryHost {
		if err := deleteFromRegistry(ctx, b.ref, s.RegistryInsecure); err != nil {
			return err
		}
	}
	store, err := s.open(ctx)
	if err != nil {
		if b.host == registryHost {
			return nil // nothing is stored here
		}
		return err
	}
	return store.RemoveImage(ctx, b.ref)
}

// deleteFromRegistry deletes an image from its registry with skopeo.
func deleteFromRegistry(ctx context.Context, ref string, insecure bool) error {
	out, err := exec.CommandContext(ctx, "skopeo", "delete", fmt.Sprintf("--tls-verify=%t", !insecure), "docker://"+ref).CombinedOutput()
	if err != nil && strings.Contains(string(out), "manifest unknown") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s from the registry with skopeo: %w: %s", ref, err, core.CutBytes(string(out), 500))
	}
	return nil
}

// removeOrphans removes builds whose image was deleted with its cluster.
func (s *Service) removeOrphans(q *db.Q) (more bool, err error) {
	const batch = 50
	builds, err := db.All(q, scanBuild, selectBuild+`
		WHERE state <> $1 AND NOT EXISTS (SELECT 1 FROM agent_images i WHERE i.id = agent_image_builds.image_id)
		ORDER BY id LIMIT $2`, removing, batch)
	for _, b := range builds {
		if err == nil {
			err = s.removeBuild(q, b)
		}
	}
	return len(builds) == batch, err
}

// A lazyStore is a store that is opened on first use.
type lazyStore struct {
	mu    sync.Mutex
	store *buildah.Store
}

// open returns the store of images of this host. The first call removes what a killed process has left, and lets its
// builds start again.
func (s *Service) open(ctx context.Context) (*buildah.Store, error) {
	s.lazy.mu.Lock()
	defer s.lazy.mu.Unlock()
	if s.lazy.store != nil {
		return s.lazy.store, nil
	}
	if s.Folder == "" {
		return nil, fmt.Errorf("this server has no folder for images")
	}
	store, err := buildah.Open(ctx, s.Folder)
	if err != nil {
		return nil, err
	}
	if s.RegistryInsecure {
		store.Insecure = s.refPrefix()
	}
	err = store.Recover(ctx)
	if err == nil {
		err = s.removeUnknown(ctx, store)
	}
	if err == nil {
		err = s.db.Write(ctx, s.restartBuilds)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	s.lazy.store = store
	return store, nil
}

// Host returns the id of this host.
func (s *Service) Host() string { return s.host }

// Store returns the store of images of this host.
func (s *Service) Store(ctx context.Context) (*buildah.Store, error) { return s.open(ctx) }

// removeUnknown removes images from the store that no build has made or that were removed meanwhile.
func (s *Service) removeUnknown(ctx context.Context, store *buildah.Store) error {
	names, err := store.Images(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, s.refPrefix()) {
			continue
		}
		known := 0
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			known, err = db.Count(q, `SELECT COUNT(*) FROM agent_image_builds WHERE image_ref = $1 AND state = $2`, name, built)
			return err
		})
		if err == nil && known == 0 {
			err = store.RemoveImage(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restartBuilds adds a build for each one that ran on this host when its process ended: the task of that one may be
// leased for long.
func (s *Service) restartBuilds(q *db.Q) error {
	builds, err := db.All(q, scanBuild, selectBuild+`WHERE host = $1 AND state = $2 ORDER BY id`, s.host, running)
	if err != nil {
		return err
	}
	for _, b := range builds {
		if err := s.removeBuild(q, b); err != nil {
			return err
		}
		b.id, b.state, b.host = core.NewID(), waiting, ""
		if err := insertBuild(q, b); err != nil {
			return err
		}
		if err := tasks.Add(q, tasks.Task{Kind: buildTask, Key: b.id, RunAt: s.clock()}); err != nil {
			return err
		}
	}
	return nil
}

// Run recovers from a killed process when the server starts, if there are builds of this host.
func (s *Service) Run(ctx context.Context) error {
	var n int
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		n, err = db.Count(q, `SELECT COUNT(*) FROM agent_image_builds WHERE host = $1 AND state = $2`, s.host, running)
		return err
	})
	if err == nil && n > 0 {
		_, err = s.open(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("recover image builds failed", "error", err)
	}
	return nil
}

// hostID returns the id of a folder, which it creates: images that are stored there can be removed there only.
func hostID(folder string) (string, error) {
	if folder == "" {
		return "none", nil
	}
	path := filepath.Join(folder, "host")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	id := core.NewID()
	return id, os.WriteFile(path, []byte(id+"\n"), 0o600)
}
