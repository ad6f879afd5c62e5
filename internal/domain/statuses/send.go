package statuses

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"stackyard/internal/domain/connections"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/platform/tasks"
)

const (
	// sendTask sends the newest state of a status. Its key is the id.
	sendTask = "commit-status"
	// sendTimeout bounds an attempt, and atOnce how many there are at the same time.
	sendTimeout = 30 * time.Second
	atOnce      = 32
	// giveUpAfter is how long a state is tried.
	giveUpAfter = 24 * time.Hour
	// firstDelay is the time before the second attempt. It doubles with each attempt, up to maxDelay.
	firstDelay = 5 * time.Second
	maxDelay   = 15 * time.Minute
	// pause is how long a host gets nothing after it did not answer.
	pause = 5 * time.Second
)

// send sends the newest state of a status. If a newer one is saved meanwhile, its task runs again.
func (s *Service) send(ctx context.Context, t *tasks.Due) error {
	var status *Status
	var paused time.Time
	err := s.DB.Read(ctx, func(q *db.Q) (err error) {
		if status, err = byID(q, t.Key); err != nil || status == nil {
			return err
		}
		paused, err = connections.PausedUntil(q, status.OrganizationID, status.host())
		return err
	})
	if err != nil || status == nil || status.SentVersion >= status.Version {
		return err
	}
	if s.Clock().Before(paused) {
		return s.postpone(ctx, status, paused)
	}
	err = s.call(ctx, status)
	now := s.Clock()
	switch {
	case err == nil:
		return s.write(ctx, func(q *db.Q) error { return recordSent(q, status, "", now) })
	case core.KindOf(err) == core.NotFound, errors.Is(err, sourcehost.ErrRefused), errors.Is(err, sourcehost.ErrExists):
		s.Log.Info("commit status refused", "organization", status.OrganizationID, "repository", status.Repository, "context", status.Context, "reason", err)
		return s.write(ctx, func(q *db.Q) error { return recordSent(q, status, err.Error(), now) })
	case !errors.Is(err, sourcehost.ErrUnavailable) && core.KindOf(err) != core.Unavailable:
		return err // of our own: the task is tried again
	case now.Sub(status.UpdatedAt) >= giveUpAfter:
		return s.write(ctx, func(q *db.Q) error { return recordSent(q, status, err.Error(), now) })
	}
	asked := sourcehost.WaitOf(err)
	wait := max(backoff(status.Attempts+1), asked)
	return s.write(ctx, func(q *db.Q) error {
		// A host that asks to wait, or does not answer, would refuse the other statuses of the organization, too.
		if err := connections.Pause(q, status.OrganizationID, status.host(), now.Add(max(pause, asked))); err != nil {
			return err
		}
		if err := recordFailure(q, status, core.Cut(err.Error(), 500)); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: sendTask, Key: status.ID, RunAt: now.Add(wait)})
	})
}

func (s *Service) call(ctx context.Context, status *Status) error {
	host, repo, err := s.Connections.HostFor(ctx, status.OrganizationID, "https://"+status.Repository)
	if err != nil {
		return err
	}
	return host.SetStatus(ctx, repo, sourcehost.Status{
		Commit: status.Commit, Context: status.Context, State: status.State, Description: status.Description, URL: status.URL,
	})
}

// write saves the result of an attempt, also when the attempt has used up its time.
func (s *Service) write(ctx context.Context, fn func(q *db.Q) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return s.DB.Write(ctx, fn)
}

// postpone has the task run again later, a little spread, so that not all statuses of a host are sent together.
func (s *Service) postpone(ctx context.Context, status *Status, until time.Time) error {
	at := until.Add(rand.N(time.Second))
	return s.write(ctx, func(q *db.Q) error { return tasks.Add(q, tasks.Task{Kind: sendTask, Key: status.ID, RunAt: at}) })
}

// backoff returns how long to wait after a number of attempts, between half and all of it by chance.
func backoff(attempts int) time.Duration {
	d := maxDelay
	if doublings := attempts - 1; doublings < 20 {
		d = min(firstDelay<<doublings, maxDelay)
	}
	return d/2 + rand.N(d/2)
}
