package agents

import (
	"context"
	"errors"
)

// errDraining ends streams when the server is about to stop.
var errDraining = errors.New("the server is about to stop")

// stream tells an agent what it is to do, at once and then whenever that changes, until ctx is done. An
// agent keeps its stream while it runs a job.
func (s *Service) stream(ctx context.Context, e *session, send func(instruction) error) error {
	waiting, done := e.beginWait(ctx)
	defer done()
	var last *instruction
	for waiting.Err() == nil {
		if s.isDraining() {
			return errDraining
		}
		now, changed, err := s.currentOffer(ctx, e)
		if err != nil {
			return err
		}
		told, settled := now.instruction()
		// What was said before is not said again: an agent would accept the same job twice. To one that has
		// taken its job there is nothing to say.
		if busy := now.job.JobID != "" && told == (instruction{}); last == nil || *last != told && !busy {
			if err := send(told); err != nil {
				return err
			}
			last = &told
		}
		if settled {
			s.awaitChange(waiting, e, changed)
			continue
		}
		jobID, err := s.awaitJob(waiting, e, now, changed, s.dispatch.Wait)
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
