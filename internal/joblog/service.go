package joblog

import (
	"context"
	"maps"
	"slices"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/pipelines"
)

// Delete deletes the log of a job. What the job prints from then on is dropped.
func (s *Service) Delete(ctx context.Context, job Job) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		if _, err := lock(q, job); err != nil {
			return err
		}
		now := s.clock()
		if err := markDeleted(q, job, now); err != nil {
			return err
		}
		q.Announce(job.topic())
		// The bytes go below; this is in case that the process does not live to see it.
		return pipelines.RemoveBytes(q, job.prefix(), now)
	})
	if err != nil {
		return err
	}
	if err := s.blobs.DeleteAll(ctx, job.prefix()); err != nil {
		s.log.Warn("delete log bytes failed, will retry", "job", job.ID, "error", err)
	}
	return nil
}

// maxHeaders is how many sections of a log have their times kept.
const maxHeaders = 10_000

// SetHeaderTimes notes when sections of a log began, by their number in the log. Agents tell it that put
// no times into the log itself, some sections at a time.
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
		if missing := last + 1 - len(r.headerTimes); missing > 0 {
			r.headerTimes = append(r.headerTimes, make([]int64, missing)...)
		}
		for i, t := range times {
			r.headerTimes[i] = t.UnixNano()
		}
		return save(q, job, r)
	})
}
