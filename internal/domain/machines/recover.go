package machines

import (
	"context"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
)

// save writes the row of a machine.
func save(q *db.Q, host string, m *Machine, now time.Time) error {
	_, err := q.Exec(`
		INSERT INTO machines (id, organization_id, cluster_id, queue_id, host, state, job_id, image_ref, place, lease_until, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, job_id = excluded.job_id, lease_until = excluded.lease_until`,
		m.ID, m.OrganizationID, m.ClusterID, m.QueueID, host, m.State, db.Text(m.JobID), m.ImageRef, db.Text(m.Place), db.Micros(now.Add(lease)), db.Micros(now))
	return err
}

// remove removes the rows of machines and lets other machines take the jobs that they have reserved.
func remove(q *db.Q, ids []string, now time.Time) error {
	for _, id := range ids {
		if _, err := dispatch.Release(q, id, now, true); err != nil {
			return err
		}
		if _, err := q.Exec(`DELETE FROM machines WHERE id = $1`, id); err != nil {
			return err
		}
	}
	return nil
}

// removeLeft removes the machines of the process that ran on this host before, and ends their jobs. Its containers and
// processes ended with it; what is left of the containers is removed when the store is opened. Machines on places go on.
func (s *Service) removeLeft(ctx context.Context) error {
	if len(s.Places) == 0 {
		if _, err := s.Images.Store(ctx); err != nil {
			s.Log.Info("hosted agents run as processes", "reason", err)
		}
	}
	return s.DB.Write(ctx, func(q *db.Q) error {
		left, err := db.All(q, scanMachine, selectMachine+`WHERE host = $1 AND place IS NULL ORDER BY id`, s.host)
		for _, m := range left {
			if err == nil {
				err = s.removeEnded(q, m)
			}
		}
		return err
	})
}

// removeEnded removes the row of a machine of which nothing is left. Its agent cannot end its job any more.
func (s *Service) removeEnded(q *db.Q, m *Machine) error {
	if err := remove(q, []string{m.ID}, s.Clock()); err != nil || m.JobID == "" {
		return err
	}
	return s.Agents.EndMachine(q, m.OrganizationID, m.JobID)
}

// keepPlaced is how long machines on places are kept that no server could adopt: none has the place in its settings.
const keepPlaced = 24 * time.Hour

// removeLost removes machines of hosts that have not renewed them. Those on places are adopted instead.
func (s *Service) removeLost(q *db.Q) (more bool, err error) {
	const batch = 50
	now := s.Clock()
	ids, err := db.Strings(q, `
		SELECT id FROM machines
		WHERE lease_until < $1 AND (place IS NULL OR lease_until < $2)
		ORDER BY lease_until, id LIMIT $3`, db.Micros(now), db.Micros(now.Add(-keepPlaced)), batch)
	if err != nil {
		return false, err
	}
	return len(ids) == batch, remove(q, ids, now)
}

// renew extends the leases of this host's machines until ctx ends.
func (s *Service) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		none := s.running == 0
		s.mu.Unlock()
		if none {
			continue
		}
		err := s.DB.Write(ctx, func(q *db.Q) error {
			_, err := q.Exec(`UPDATE machines SET lease_until = $2 WHERE host = $1`, s.host, db.Micros(s.Clock().Add(lease)))
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("renew machines failed", "error", err)
		}
	}
}

// warm creates machines that wait for jobs of a queue, in the background: the image may have to be pulled first.
// Processes start at once, so only containers are created.
func (s *Service) warm(ctx context.Context, queue clusters.HostedQueue) {
	for s.claimWarm(queue) {
		s.jobs.Go(func() {
			m := newMachine(queue, Idle)
			err := s.prepare(ctx, m)
			s.mu.Lock()
			s.warming[queue.ID]--
			if err == nil {
				s.idle[queue.ID] = append(s.idle[queue.ID], m)
			} else {
				s.warmAgain[queue.ID] = s.Clock().Add(warmPause)
			}
			s.mu.Unlock()
			if err != nil {
				s.Log.Warn("create idle machine failed", "queue", queue.ID, "image", queue.ImageRef, "error", err)
				s.forget(context.WithoutCancel(ctx), m)
				s.release(m)
			}
		})
	}
}

// warmPause is how long no idle machine of a queue is created after one could not be created.
const warmPause = time.Minute

// claimWarm reports whether another idle machine of a queue must be created, and counts it.
func (s *Service) claimWarm(queue clusters.HostedQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Places) > 0 || s.isDraining() || len(s.idle[queue.ID])+s.warming[queue.ID] >= s.Warm || s.running >= s.Max || s.Clock().Before(s.warmAgain[queue.ID]) {
		return false
	}
	s.running++
	s.warming[queue.ID]++
	return true
}

// prepare creates the container of a machine.
func (s *Service) prepare(ctx context.Context, m *Machine) error {
	store, err := s.Images.Store(ctx)
	if err != nil {
		return err
	}
	if err := s.DB.Write(ctx, func(q *db.Q) error { return save(q, s.host, m, s.Clock()) }); err != nil {
		return err
	}
	m.container, err = store.NewContainer(ctx, s.imageOf(m), memoryOf(m))
	return err
}

// dropStale removes idle machines whose queue is gone or has another image now.
func (s *Service) dropStale(ctx context.Context, queues []clusters.HostedQueue) {
	images := map[string]string{}
	for _, queue := range queues {
		images[queue.ID] = queue.ImageRef
	}
	s.mu.Lock()
	var stale []*Machine
	for id, idle := range s.idle {
		kept := idle[:0:0]
		for _, m := range idle {
			if ref, known := images[id]; known && ref == m.ImageRef {
				kept = append(kept, m)
			} else {
				stale = append(stale, m)
			}
		}
		s.idle[id] = kept
	}
	s.mu.Unlock()
	for _, m := range stale {
		s.forget(ctx, m)
		s.release(m)
	}
}

// removeIdle removes all idle machines.
func (s *Service) removeIdle(ctx context.Context) { s.dropStale(ctx, nil) }

// forget removes a machine: its container, then its row.
func (s *Service) forget(ctx context.Context, m *Machine) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	if m.container != "" {
		store, err := s.Images.Store(ctx)
		if err == nil {
			err = store.RemoveContainer(ctx, m.container)
		}
		if err != nil {
			s.Log.Warn("remove container failed", "machine", m.ID, "error", err)
		}
	}
	if err := s.DB.Write(ctx, func(q *db.Q) error { return s.removeEnded(q, m) }); err != nil {
		s.Log.Warn("remove machine failed", "machine", m.ID, "error", err)
	}
}
