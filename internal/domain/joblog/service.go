package joblog

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Delete deletes the log of a job. If the job has not ended, it deletes what was written so far and keeps what
// comes later.
func (s *Service) Delete(ctx context.Context, job Job) error {
	known, err := s.find(ctx, job)
	for err == nil {
		if known.ended {
			return s.deleteAll(ctx, job)
		}
		if err = s.deleteSoFar(ctx, job, known); !errors.Is(err, errOvertaken) {
			return err
		}
		known, err = s.find(ctx, job)
	}
	return err
}

// deleteAll deletes the log of an ended job.
func (s *Service) deleteAll(ctx context.Context, job Job) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		if _, err := lock(q, job); err != nil {
			return err
		}
		now := s.clock()
		if err := markDeleted(q, job, now); err != nil {
			return err
		}
		q.Announce(job.topic())
		// The bytes are removed below; the task removes them if the process dies before.
		return pipelines.RemoveBytes(q, job.prefix(), now)
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
	old := job.pieces(known.generation)
	pieces, err := s.blobs.Pieces(ctx, old, 0, math.MaxInt64)
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
		return pipelines.RemoveBytes(q, old, s.clock())
	})
	if err != nil {
		return err
	}
	// Chunks that arrived after the pieces were listed and before the new generation started belong to it.
	// Without them its beginning would be missing.
	if err := s.move(ctx, old, end, job.pieces(known.generation+1)); err != nil {
		return err
	}
	s.removeBytes(ctx, old)
	s.bus.Publish(job.topic())
	return nil
}

// move copies the bytes under a key, from an offset, to another key, where they start at offset 0.
func (s *Service) move(ctx context.Context, from string, offset int64, to string) error {
	pieces, err := s.blobs.Pieces(ctx, from, offset, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		content, err := s.readPiece(ctx, from, p)
		if errors.Is(err, blob.ErrNotFound) {
			return s.move(ctx, from, offset, to) // joined with others meanwhile
		}
		if err != nil {
			return err
		}
		if err := s.store(ctx, to, p.Offset-offset, content); err != nil {
			return err
		}
	}
	return nil
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
