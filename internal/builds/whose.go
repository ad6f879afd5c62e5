package builds

import (
	"context"
	"errors"
	"sync"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// maxWhose bounds the jobs whose build is remembered.
const maxWhose = 20_000

// whose remembers which build jobs are of, which never changes. The zero value is ready.
type whose struct {
	mu     sync.Mutex
	builds map[jobOf]string
}

func (w *whose) note(job jobOf, buildID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.builds == nil || len(w.builds) >= maxWhose {
		w.builds = map[jobOf]string{}
	}
	w.builds[job] = buildID
}

func (w *whose) recall(job jobOf) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.builds[job]
}

// buildOf returns the build of a job of an organization, or a NotFound error.
func (s *Service) buildOf(ctx context.Context, orgID, jobID string) (buildID string, err error) {
	job := jobOf{orgID, jobID}
	if buildID := s.whose.recall(job); buildID != "" {
		return buildID, nil
	}
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT build_id FROM jobs WHERE organization_id = $1 AND id = $2`, orgID, jobID).Scan(&buildID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", core.Errorf(core.NotFound, noJob)
	}
	if err == nil {
		s.whose.note(job, buildID)
	}
	return buildID, err
}
