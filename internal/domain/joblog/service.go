package joblog

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Delete deletes the log of a job. If the job has not ended, it deletes what was written so far and keeps what
// comes later.
func (s *Service) Delete(ctx context.Context, job Job) error {
	for {
		known, err := s.find(ctx, job)
		if err != nil {
			return err
		}
		if known.ended {
			return s.deleteAll(ctx, job)
		}
		// The log can grow or end between find and the deletion. Then it is read again.
		if err := s.deleteSoFar(ctx, job, known); !errors.Is(err, errOvertaken) {
			return err
		}
	}
}

// deleteAll deletes the log of an ended job.
func (s *Service) deleteAll(ctx context.Context, job Job) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		r, err := lock(q, job)
		if err != nil {
			return err
		}
		// The bytes are removed below; the task of markRemoved removes them if the process dies before.
		freed, err := s.markRemoved(q, job, r)
		if err != nil {
			return err
		}
		return usage.Add(q, job.OrganizationID, usage.Logs, usage.Stored{Bytes: -freed.Bytes, Objects: -freed.Objects})
	})
	if err != nil {
		return err
	}
	s.removeBytes(ctx, job.prefix())
	return nil
}

// deleteSoFar starts a new generation of the log of a running job. It returns errOvertaken if another deletion
// or the end of the job came first.
func (s *Service) deleteSoFar(ctx context.Context, job Job, known record) error {
	old := known.pieces(job)
	pieces, err := s.list(ctx, old, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	var end int64
	for _, p := range pieces {
		end = max(end, p.End())
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		r, err := lock(q, job)
		if err != nil {
			return err
		}
		if r.ended || r.generation != known.generation {
			return errOvertaken
		}
		r.generation++
		r.deletedBytes += end
		r.deletedSections += len(r.headerTimes)
		r.headerTimes = nil
		if err := save(q, job, r); err != nil {
			return err
		}
		q.Announce(job.topic())
		return pipelines.RemoveBytes(q, old.key(), s.clock())
	})
	if err != nil {
		return err
	}
	// Chunks that arrived after the pieces were listed and before the new generation started belong to it.
	// Without them its beginning would be missing.
	if err := s.move(ctx, old, end); err != nil {
		return err
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`DELETE FROM log_pieces WHERE job_id = $1 AND generation <= $2`, job.ID, old.generation)
		return err
	})
	if err != nil {
		return err
	}
	s.removeBytes(ctx, old.key())
	s.bus.Publish(job.topic())
	return nil
}

// move copies the bytes of a generation, from an offset, to the beginning of the next.
func (s *Service) move(ctx context.Context, from unsealed, offset int64) error {
	now, err := s.find(ctx, from.job)
	if err != nil {
		return err
	}
	from.spilled = now.spilled
	pieces, err := s.list(ctx, from, offset, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		content, err := s.read(ctx, from, p)
		if errors.Is(err, blob.ErrNotFound) {
			return s.move(ctx, from, offset) // joined with others meanwhile
		}
		if err != nil {
			return err
		}
		if err := s.addMoved(ctx, from, p.Offset-offset, content); err != nil {
			return err
		}
	}
	return nil
}

// addMoved adds bytes to the generation after another one.
func (s *Service) addMoved(ctx context.Context, from unsealed, offset int64, content []byte) error {
	if !from.spilled {
		if err := s.spill(ctx, from.job); err != nil {
			return err
		}
	}
	return s.store(ctx, from.job.pieces(from.generation+1), offset, content)
}

// removeBytes removes blobs now. If it fails, a task removes them later.
func (s *Service) removeBytes(ctx context.Context, prefix string) {
	if err := s.blobs.DeleteAll(ctx, prefix); err != nil {
		s.log.Warn("delete log bytes failed, will retry", "prefix", prefix, "error", err)
	}
}

// maxHeaders limits the sections of a log with stored times.
const maxHeaders = 10_000

// SetHeaderTimes records start times of sections by their number in the log. Agents that put no times into the
// log report them, some sections at a time.
func (s *Service) SetHeaderTimes(ctx context.Context, job Job, times map[int]time.Time) error {
	if len(times) == 0 {
		return nil
	}
	last := slices.Max(slices.Collect(maps.Keys(times)))
	if first := slices.Min(slices.Collect(maps.Keys(times))); first < 0 || last >= maxHeaders {
		return core.Errorf(core.Unprocessable, "The numbers of header_times must be from 0 to %d", maxHeaders-1)
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		r, err := lock(q, job)
		if err != nil || r.deleted {
			return err
		}
		if missing := last + 1 - r.deletedSections - len(r.headerTimes); missing > 0 {
			r.headerTimes = append(r.headerTimes, make([]int64, missing)...)
		}
		for i, t := range times {
			if at := i - r.deletedSections; at >= 0 {
				r.headerTimes[at] = t.UnixNano()
			}
		}
		return save(q, job, r)
	})
}
