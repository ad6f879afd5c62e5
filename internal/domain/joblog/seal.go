package joblog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

const (
	// sealTask is the kind of the task that seals a log. Its key is the id of the job.
	sealTask = "log-seal"
	// sealTimeout limits one attempt. Logs can have a GiB, and disks can be slow.
	sealTimeout = 15 * time.Minute
)

// Background registers tasks of logs.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(sealTask, tasks.Limits{Timeout: sealTimeout}, func(ctx context.Context, t *tasks.Due) error {
		var job Job
		if err := t.Payload(&job); err != nil {
			return err
		}
		return s.seal(ctx, job)
	})
	r.Sweep(removalTask, removeEvery, s.removeOld)
}

// Observe notifies the readers of the logs of ended jobs, and enqueues sealing those that are not small.
func (s *Service) Observe(q *db.Q, b *builds.Build, moved []flow.JobChange) error {
	var ended []string
	for _, m := range moved {
		j := m.Job
		if j.Type == flow.Script && j.State.Ended() && m.From.Held() {
			ended = append(ended, j.ID)
			q.Announce(Topic(j.ID))
		}
	}
	if len(ended) == 0 {
		return nil
	}
	spilled, err := spilledLogs(q, ended)
	if err != nil || len(spilled) == 0 {
		return err
	}
	due := make([]tasks.Task, len(spilled))
	for i, id := range spilled {
		job := Job{OrganizationID: b.OrganizationID, PipelineID: b.PipelineID, BuildID: b.ID, ID: id}
		due[i] = tasks.Task{Kind: sealTask, Key: id, Payload: job, RunAt: s.clock()}
	}
	return tasks.Add(q, due...)
}

// seal packs the whole log of an ended job into one archive. It can be repeated, and it removes nothing before
// the replacement is durable.
func (s *Service) seal(ctx context.Context, job Job) error {
	select {
	case s.sealing <- struct{}{}:
		defer func() { <-s.sealing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	known, err := s.find(ctx, job)
	if core.KindOf(err) == core.NotFound {
		return s.blobs.DeleteAll(ctx, job.prefix()) // the job was removed
	}
	if err != nil || !known.ended || known.deleted || !known.spilled {
		return err
	}
	// A process that sealed the log before may have died before it checked for late chunks.
	known.settled = false
	l, err := s.open(ctx, job, known)
	if err != nil {
		return err
	}
	sealed := l.record
	sealed.settled = true
	if len(l.pieces) > 0 {
		if err := s.archive(ctx, l, &sealed); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, l, sealed); err != nil {
		return err
	}
	if err := s.checkLate(ctx, l); err != nil || len(l.pieces) == 0 {
		return err
	}
	if old := l.record.archive; old != "" {
		if err := s.blobs.Delete(ctx, old); err != nil {
			return err
		}
	}
	return s.remove(ctx, known.pieces(job), l.pieces)
}

// checkLate looks for chunks that arrived while the log was sealed, whose senders did not see it as settled.
// Senders of later chunks do.
func (s *Service) checkLate(ctx context.Context, l *Log) error {
	pieces, err := s.list(ctx, l.record.pieces(l.job), 0, math.MaxInt64)
	if err != nil {
		return err
	}
	seen := make(map[blob.Piece]bool, len(l.pieces))
	for _, p := range l.pieces {
		seen[p.Piece] = true
	}
	if !slices.ContainsFunc(pieces, func(p piece) bool { return !seen[p.Piece] }) {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error { return s.scheduleReseal(q, l.job) })
}

// archive writes the archive of a log and records its key in r.
func (s *Service) archive(ctx context.Context, l *Log, r *record) error {
	r.archive = fmt.Sprintf("%s/%s.zst", l.job.prefix(), core.NewID())
	from, to := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() {
		a := &archiver{to: to}
		err := l.archiveTo(ctx, a)
		if err == nil {
			r.archiveSize, r.indexSize, err = a.finish()
		}
		to.CloseWithError(err)
	})
	err := s.blobs.Put(ctx, r.archive, from, -1)
	from.CloseWithError(err) // ends the writer if not everything was read
	writing.Wait()
	return err
}

func (l *Log) archiveTo(ctx context.Context, a *archiver) error {
	for _, p := range l.parts {
		if p.marker != "" {
			continue
		}
		if err := a.seek(p.raw); err != nil {
			return err
		}
		if err := l.copyRaw(ctx, a, p.raw, p.raw+p.size); err != nil {
			return err
		}
	}
	return nil
}

// errOvertaken reports that a log was deleted, or sealed by another process, while it was being sealed.
var errOvertaken = errors.New("the log was deleted or sealed by another meanwhile")

// settle records that the archive contains the whole log. If the log was overtaken, it removes the archive.
func (s *Service) settle(ctx context.Context, l *Log, sealed record) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		settled, err := settle(q, l.job, l.record.archive, sealed)
		if err == nil && !settled {
			err = errOvertaken
		}
		if err != nil {
			return err
		}
		before, after := l.record.stored(), sealed.stored()
		return usage.Add(q, l.job.OrganizationID, usage.Logs, usage.Stored{Bytes: after.Bytes - before.Bytes, Objects: after.Objects - before.Objects})
	})
	if errors.Is(err, errOvertaken) && sealed.archive != l.record.archive {
		err = errors.Join(err, s.blobs.Delete(ctx, sealed.archive))
	}
	return err
}
