package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/hookpayload"
)

const (
	processTimeout = 30 * time.Second // deliveries of a replica that died wait a little longer
	perRun         = 200              // deliveries of a pipeline before those of others
	maxAttempts    = 12               // of a delivery whose errors only the operator can repair
	recordTimeout  = 5 * time.Second  // to save that an attempt failed
)

// process processes the pending deliveries of a pipeline one after the other, so that pushes to a branch are built in
// their order. After an error the first of them is tried again later; the others wait for it.
func (s *Service) process(ctx context.Context, t *tasks.Due) error {
	for range perRun {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < processTimeout/2 {
			break // so that a delivery that runs out of time did so by itself
		}
		var d *Delivery
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			d, err = oldestPending(q, t.Key)
			return err
		})
		if err != nil || d == nil {
			return err
		}
		if err := s.processOne(ctx, d); err != nil {
			if err := s.countFailure(ctx, d, err); err != nil {
				return err
			}
		}
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		return tasks.Add(q, tasks.Task{Kind: processTask, Key: t.Key, RunAt: s.clock()})
	})
}

// countFailure counts a failed attempt and returns its error. After the last attempt it ends the delivery and returns
// nil.
func (s *Service) countFailure(ctx context.Context, d *Delivery, cause error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return cause // the server stops
	}
	d.Attempts++
	s.log.Warn("process webhook failed", "delivery", d.ID, "pipeline", d.PipelineID, "attempt", d.Attempts, "error", cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := s.db.Write(ctx, func(q *db.Q) error {
		if d.Attempts < maxAttempts {
			return countAttempt(q, d)
		}
		d.State, d.Reason, d.ProcessedAt = Failed, "the server could not process it; its log has the reason", s.clock()
		return finish(q, d)
	})
	if err == nil && d.State == Failed {
		return nil
	}
	return errors.Join(cause, err)
}

// processOne decides about the events of a delivery, creates their builds, and ends the delivery.
func (s *Service) processOne(ctx context.Context, d *Delivery) error {
	events, err := hookpayload.Parse(d.Host, d.Event, d.Headers["Content-Type"], []byte(d.Body))
	if err != nil {
		return s.end(ctx, d, nil, []string{err.Error()}, true)
	}
	var p *pipelines.Pipeline
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		p, err = pipelines.ByID(q, pipelines.System(d.OrganizationID), d.PipelineID)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return s.end(ctx, d, nil, []string{"the pipeline was deleted"}, false)
	}
	if err != nil {
		return err
	}
	var drafts []*lifecycle.Draft
	var reasons []string
	failed := false
	for i, e := range events {
		draft, reason, err := s.prepare(ctx, p, d, i, e)
		switch {
		case err != nil && !isRefusal(err):
			return err
		case err != nil:
			reasons, failed = append(reasons, sentence(err)), true
		case draft != nil:
			drafts = append(drafts, draft)
		default:
			reasons = append(reasons, reason)
		}
	}
	err = s.end(ctx, d, drafts, reasons, failed)
	if err != nil && isRefusal(err) {
		return s.end(ctx, d, nil, append(reasons, sentence(err)), true)
	}
	return err
}

// prepare returns the build of an event, or why there is none. The error is a refusal when the event should be built and
// cannot be.
func (s *Service) prepare(ctx context.Context, p *pipelines.Pipeline, d *Delivery, i int, e hookpayload.Event) (*lifecycle.Draft, string, error) {
	built := ""
	if e.Commit != "" {
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			built, err = builds.BuiltCommit(q, p.OrganizationID, p.ID, e.Commit)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		if len(built) > len(e.Commit) {
			e.Commit = built
		}
	}
	decided := Decide(p, e, built != "")
	if decided.Cancel != "" {
		if err := s.builds.CancelBranch(ctx, p.OrganizationID, p.ID, decided.Cancel, "The branch was deleted"); err != nil {
			return nil, "", err
		}
	}
	if decided.Build == nil {
		return nil, decided.Reason, nil
	}
	decided.Build.Origin = d.origin(i)
	draft, err := s.builds.Draft(ctx, p, *decided.Build)
	return draft, "", err
}

// origin identifies an event of a delivery among the builds of a pipeline: it is built once, also when the delivery
// comes again after it was removed here.
func (d *Delivery) origin(i int) string {
	from := d.ID
	switch {
	case d.Digest != "":
		from = d.Digest
	case d.DeliveryID != "":
		from = d.DeliveryID
	}
	return fmt.Sprintf("webhook:%s:%d", from, i)
}

// end creates builds and ends the delivery, in one transaction.
func (s *Service) end(ctx context.Context, d *Delivery, drafts []*lifecycle.Draft, reasons []string, failed bool) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		d.Builds = nil
		for _, draft := range drafts {
			b, _, err := draft.CreateTx(q)
			if err != nil {
				return err
			}
			d.Builds = append(d.Builds, BuildLink{b.ID, b.Number})
		}
		switch {
		case len(d.Builds) > 0:
			d.State = Built
		case failed:
			d.State = Failed
		default:
			d.State = Ignored
		}
		d.Reason, d.ProcessedAt = core.Cut(strings.Join(slices.Compact(reasons), "; "), maxReason), s.clock()
		d.Attempts++
		return finish(q, d)
	})
}

// maxReason is the length of a reason, in bytes.
const maxReason = 2000

// isRefusal reports whether an error says what people must change, so that another attempt fails too.
func isRefusal(err error) bool {
	switch core.KindOf(err) {
	case core.BadRequest, core.Forbidden, core.NotFound, core.Conflict, core.Unprocessable, core.TooLarge:
		return true
	}
	return false
}

// sentence returns the message of a refusal with the fields that it is about.
func sentence(err error) string {
	e, ok := errors.AsType[*core.Error](err)
	if !ok {
		return err.Error()
	}
	text := e.Message
	for _, f := range e.Fields {
		text += fmt.Sprintf("; %s %s", f.Field, f.Code)
	}
	return printable(text)
}
