package agents

import (
	"context"
	"errors"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
)

// errDraining ends streams when the server drains.
var errDraining = errors.New("the server is about to stop")

// stream sends an agent its instruction now and whenever it changes, until ctx is done. The stream stays open
// while the agent runs a job.
func (s *Service) stream(ctx context.Context, sess *session, send func(instruction) error) error {
	replaced := sess.beginWait()
	defer sess.endWait()
	var last *instruction
	for ctx.Err() == nil && !core.IsClosed(replaced) {
		if s.isDraining() {
			return errDraining
		}
		now, changed, err := s.currentOffer(ctx, sess)
		if err != nil {
			return err
		}
		next, final := now.instruction()
		// An instruction is not repeated: the agent would accept the same job twice. An agent that runs its job
		// gets no instruction.
		if busy := now.job.JobID != "" && next == (instruction{}); last == nil || *last != next && !busy {
			if err := send(next); err != nil {
				return err
			}
			last = &next
		}
		if final {
			s.awaitChange(ctx, sess, changed, replaced)
			continue
		}
		jobID, _, err := s.awaitJob(ctx, sess, now, false, dispatch.Interrupts{Changed: changed, Replaced: replaced})
		if err != nil {
			return err
		}
		if jobID != "" {
			last = &instruction{jobID: jobID}
			if err := send(*last); err != nil {
				return err
			}
		}
	}
	return nil
}
