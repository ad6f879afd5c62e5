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
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

const (
	// sealTask is the kind of the task that seals a log. Its key is the id of the job.
	sealTask = "log-seal"
	// sealTimeout is that of one attempt: there are logs of a GiB, and slow disks.
	sealTimeout = 15 * time.Minute
)

// Background registers what is done to logs without a request.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(sealTask, tasks.Limits{Timeout: sealTimeout}, func(ctx context.Context, t *tasks.Due) error {
		var job Job
		if err := t.Payload(&job); err != nil {
			return err
		}
		return s.seal(ctx, job)
	})
}

// Observe has the logs of jobs sealed that have ended, and tells those who follow them.
func (s *Service) Observe(q *db.Q, b *builds.Build, moved []flow.JobChange) error {
	var due []tasks.Task
	for _, m := range moved {
		j := m.Job
		if j.Type != flow.Script || !j.State.Ended() || !m.From.Held() {
			continue
		}
		job := Job{OrganizationID: b.OrganizationID, PipelineID: b.PipelineID, BuildID: b.ID, ID: j.ID}
		due = append(due, tasks.Task{Kind: sealTask, Key: j.ID, Payload: job, RunAt: s.clock()})
		q.Announce(job.topic())
	}
	if len(due) == 0 {
		return nil
	}
	return tasks.Add(q, due...)
}

// seal makes one archive of all that there is of the log of a job that has ended. It can be repeated, and
// nothing is removed before what takes its place is durable.
func (s *Service) seal(ctx context.Context, job Job) error {
	select {
	case s.sealing <- struct{}{}:
		defer func() { <-s.sealing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	known, err := s.find(ctx, job)
	if core.KindOf(err) == core.NotFound {
		return s.blobs.DeleteAll(ctx, job.prefix()) // the job has been removed
	}
	if err != nil || !known.ended || known.deleted {
		return err
	}
	// Who sealed it before may have died before it could look what came meanwhile.
	known.settled = false
	l, err := s.open(ctx, job, known)
	if err != nil {
		return err
	}
	sealed := l.record
	sealed.settled = true
	if len(l.loose) > 0 {
		if err := s.archive(ctx, l, &sealed); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, l, sealed); err != nil {
		return err
	}
	if err := s.lookAgain(ctx, l); err != nil || len(l.loose) == 0 {
		return err
	}
	if old := l.record.archive; old != "" {
		if err := s.blobs.Delete(ctx, old); err != nil {
			return err
		}
	}
	return s.blobs.RemovePieces(ctx, job.pieces(known.generation), l.loose)
}

// lookAgain looks for chunks that came while a log was sealed. Those who sent them did not find it settled
// yet; who sends one from now on does.
func (s *Service) lookAgain(ctx context.Context, l *Log) error {
	pieces, err := s.blobs.Pieces(ctx, l.job.pieces(l.record.generation), 0, math.MaxInt64)
	if err != nil {
		return err
	}
	seen := make(map[blob.Piece]bool, len(l.loose))
	for _, p := range l.loose {
		seen[p] = true
	}
	if !slices.ContainsFunc(pieces, func(p blob.Piece) bool { return !seen[p] }) {
		return nil
	}
	return s.db.Write(ctx, func(q *db.Q) error { return s.unsettle(q, l.job) })
}

// archive writes the archive of a log, and notes where it is.
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
	from.CloseWithError(err) // so that nobody goes on writing when not all of it was read
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

// errOvertaken says that a log was deleted, or sealed by another, while it was sealed.
var errOvertaken = errors.New("the log was deleted or sealed by another meanwhile")

// settle notes that a log is in its archive, unless it was overtaken: then the archive goes.
func (s *Service) settle(ctx context.Context, l *Log, sealed record) error {
	err := s.db.Write(ctx, func(q *db.Q) error {
		settled, err := settle(q, l.job, l.record.archive, sealed)
		if err == nil && !settled {
			err = errOvertaken
		}
		return err
	})
	if errors.Is(err, errOvertaken) && sealed.archive != l.record.archive {
		err = errors.Join(err, s.blobs.Delete(ctx, sealed.archive))
	}
	return err
}
