package agentimages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/buildah"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// buildTask is the kind of the task that builds an image. Its key is the id of the build.
const buildTask = "agent-image-build"

// The states of a build.
type buildState string

const (
	waiting  buildState = "waiting"
	running  buildState = "running"
	built    buildState = "built"
	failed   buildState = "failed"
	removing buildState = "removing" // its real image is to be removed, then the row
)

// A build is one attempt to build a version of an image.
type build struct {
	id, imageID, orgID, clusterID string
	version                       int
	state                         buildState
	host                          string
	ref                           string
	attempts                      int
	createdAt                     time.Time
}

// Limits of builds.
const (
	DefaultBuildTimeout = 15 * time.Minute
	DefaultBuildMemory  = 4 << 30
	DefaultBuildDisk    = 20 << 30
	MaxBuildTimeout     = time.Hour
	// buildMargin is left to save the result before the lease of the task ends.
	buildMargin = time.Minute
	// maxAttempts is how often a build is started again after its server died.
	maxAttempts = 5
	// maxError is the length limit of last_build_error, in characters.
	maxError = 2000
)

// Background registers the tasks of images.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(buildTask, tasks.Limits{Timeout: s.BuildTimeout + buildMargin, AtOnce: 1}, s.runBuild)
	r.Handle(s.removalTask(), tasks.Limits{Timeout: 5 * time.Minute, MaxAge: 7 * 24 * time.Hour, AtOnce: 1}, s.runRemoval)
	if s.Registry != "" {
		r.Handle(removalTaskOf(registryHost), tasks.Limits{Timeout: 5 * time.Minute, MaxAge: 7 * 24 * time.Hour, AtOnce: 1}, s.runRemoval)
	}
	r.Sweep("agent-image-orphans", 10*time.Minute, s.removeOrphans)
}

// addBuild adds the build of an image's version.
func (s *Service) addBuild(q *db.Q, i *Image) error {
	b := build{
		id: core.NewID(), imageID: i.ID, orgID: i.OrganizationID, clusterID: i.ClusterID, version: i.Version,
		state: waiting, ref: s.refOf(i), createdAt: s.clock(),
	}
	if err := insertBuild(q, b); err != nil {
		return err
	}
	return tasks.Add(q, tasks.Task{Kind: buildTask, Key: b.id, RunAt: b.createdAt})
}

// refPrefix is what references of images of this installation start with.
func (s *Service) refPrefix() string {
	if s.Registry == "" {
		return "localhost/agent-images/"
	}
	return s.Registry + "/"
}

// refOf returns the reference of an image's version. Names can have characters that references cannot.
func (s *Service) refOf(i *Image) string {
	return fmt.Sprintf("%s%s:%d", s.refPrefix(), i.ID, i.Version)
}

// runBuild builds a version of an image and saves the result.
func (s *Service) runBuild(ctx context.Context, t *tasks.Due) error {
	store, openErr := s.open(ctx)
	image, b, err := s.start(ctx, t.Key)
	if err != nil || b.state != running {
		return err
	}
	log := s.newLog(b.id)
	if b.attempts > maxAttempts {
		err = fmt.Errorf("the build was started %d times, and each time the server stopped before it ended", maxAttempts)
	} else {
		err = s.construct(ctx, store, openErr, image, b, log)
	}
	if ctx.Err() != nil {
		log.close(context.WithoutCancel(ctx))
		return ctx.Err() // the server stops: the build starts again
	}
	if err != nil {
		fmt.Fprintf(log, "\n%s\n", err)
	}
	log.close(ctx)
	return s.finish(ctx, b, err)
}

// start marks a build as running on this host. It returns the build in another state if there is nothing to build any
// more: the image was deleted, or changed.
func (s *Service) start(ctx context.Context, id string) (image Image, b build, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if b, err = lockBuild(q, id); err != nil || b.state != waiting && b.state != running {
			return noRows(err)
		}
		image, err = byID(q, b.clusterID, b.imageID)
		if core.KindOf(err) == core.NotFound || err == nil && image.Version != b.version {
			b.state = removing
			return s.removeBuild(q, b)
		}
		if err != nil {
			return err
		}
		b.state, b.host = running, s.host
		b.attempts++
		_, err = q.Exec(`UPDATE agent_image_builds SET state = $2, host = $3, attempts = $4, started_at = $5 WHERE id = $1`,
			b.id, b.state, b.host, b.attempts, db.Micros(s.clock()))
		return err
	})
	return image, b, err
}

// construct builds the real image.
func (s *Service) construct(ctx context.Context, store *buildah.Store, openErr error, image Image, b build, log *logWriter) error {
	text := compose(image.BaseImage, image.Dockerfile)
	if name, line := unknownInstruction(text); name != "" {
		return fmt.Errorf("unknown instruction %q in line %d of the composed Dockerfile", name, line)
	}
	if openErr != nil {
		return fmt.Errorf("the image cannot be built: %w", openErr)
	}
	if hasHeredoc(text) && !store.Heredocs() {
		return fmt.Errorf("the Dockerfile has a heredoc (<<), which needs buildah 1.33 or newer; this server has %s", store.Version())
	}
	fmt.Fprintf(log, "Building %s version %d\n", image.Name, image.Version)
	limited, cancel := context.WithTimeout(ctx, s.BuildTimeout)
	defer cancel()
	err := store.Build(limited, buildah.Build{Ref: b.ref, Dockerfile: text, Memory: s.BuildMemory, Disk: s.BuildDisk}, log)
	if err == nil && s.Registry != "" {
		fmt.Fprintf(log, "Pushing %s\n", b.ref)
		err = store.Push(limited, b.ref, s.RegistryInsecure, log)
		if err != nil {
			err = fmt.Errorf("the image was built, and pushing it to the registry failed: %w", err)
		}
		err = errors.Join(err, store.RemoveImage(ctx, b.ref))
	}
	switch failure, isFailure := errors.AsType[*buildah.Failure](err); {
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("the build took longer than %s", s.BuildTimeout)
	case errors.Is(err, buildah.ErrMemory), errors.Is(err, buildah.ErrDisk):
		return fmt.Errorf("the build was stopped: %w", err)
	case isFailure && failure.Command == "bud":
		return errors.New(withLastLines(failure.Error(), log.last()))
	}
	return err
}

// withLastLines adds the last lines of the log to an error, which often have the cause.
func withLastLines(message, log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	kept := make([]string, 0, len(lines))
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, message) {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return message
	}
	return message + "\nLast lines of the log:\n" + strings.Join(kept[max(0, len(kept)-10):], "\n")
}

// finish saves the result of a build. A version that was built replaces the one before it, also in queues.
func (s *Service) finish(ctx context.Context, b build, failure error) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if _, err := clusters.Lock(q, b.orgID, b.clusterID); err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
		current, err := lockBuild(q, b.id)
		if err != nil || current.state != running || current.host != s.host {
			return noRows(err)
		}
		switch {
		case failure != nil:
			current.host = "" // nothing is stored
		case s.Registry != "":
			current.host = registryHost
		}
		image, err := byID(q, b.clusterID, b.imageID)
		if core.KindOf(err) == core.NotFound || err == nil && image.Version != b.version {
			return s.removeBuild(q, current)
		}
		if err != nil {
			return err
		}
		before := image.ImageRef
		image.Status, image.LastError, current.state = Ready, "", built
		if failure != nil {
			image.Status, image.LastError, current.state = Failed, core.Cut(sentence(failure.Error()), maxError), failed
		} else {
			image.ImageRef = b.ref
		}
		image.UpdatedAt = s.clock()
		if err := save(q, image); err != nil {
			return err
		}
		if _, err := q.Exec(`UPDATE agent_image_builds SET state = $2, host = $3, finished_at = $4 WHERE id = $1`,
			b.id, current.state, db.Text(current.host), db.Micros(image.UpdatedAt)); err != nil {
			return err
		}
		q.Announce(logTopic(b.id))
		if failure != nil {
			return nil
		}
		if before != "" && before != image.ImageRef {
			if err := clusters.ReplaceImage(q, image.ClusterID, before, image.ImageRef); err != nil {
				return err
			}
		}
		return s.removeBuilds(q, image.ID, b.id)
	})
}

// sentence returns a text with a capital letter at its start.
func sentence(text string) string {
	if text == "" {
		return "The build failed"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// noRows returns nil for the error of a build that was removed.
func noRows(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	return err
}

const selectBuild = `SELECT id, image_id, organization_id, cluster_id, version, state, host, image_ref, attempts, created_at FROM agent_image_builds `

func scanBuild(scan db.Scan) (b build, err error) {
	return b, scan(&b.id, &b.imageID, &b.orgID, &b.clusterID, &b.version, &b.state, db.ToText(&b.host), &b.ref, &b.attempts, db.ToTime(&b.createdAt))
}

func insertBuild(q *db.Q, b build) error {
	_, err := q.Exec(`
		INSERT INTO agent_image_builds (id, image_id, organization_id, cluster_id, version, state, host, image_ref, attempts, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		b.id, b.imageID, b.orgID, b.clusterID, b.version, b.state, db.Text(b.host), b.ref, b.attempts, db.Micros(b.createdAt))
	return err
}

// lockBuild returns a build and locks it until the end of the transaction.
func lockBuild(q *db.Q, id string) (build, error) {
	if err := q.Lock("agent_image_builds", id); err != nil {
		return build{}, err
	}
	return db.One(q, scanBuild, selectBuild+`WHERE id = $1`, id)
}
