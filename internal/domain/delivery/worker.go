package delivery

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

const (
	// maxInFlight is how many deliveries are on their way to one receiver at the same time.
	maxInFlight = 8
	// runFor is how long a worker starts new attempts before it lets its task end and begin again. The task's lease
	// is longer by the attempts that it has begun, and delays deliveries by as much when a process dies.
	runFor     = 8 * time.Second
	runTimeout = runFor + requestTimeout + 2*time.Second
	// windowSize bounds the deliveries of a receiver in memory, and loadSize those that are loaded at once.
	windowSize, loadSize = 2000, 500
	// trimEvery is how many deliveries end before old ones are removed.
	trimEvery = 50
)

// send sends the pending deliveries of a receiver that are due.
func (s *Service) send(ctx context.Context, t *tasks.Due) error {
	var payload sendPayload
	if err := t.Payload(&payload); err != nil {
		return err
	}
	r, err := s.Receivers.Receiver(ctx, payload.OrganizationID, t.Key)
	if core.KindOf(err) == core.NotFound {
		return s.removeDeliveries(ctx, &Delivery{OrganizationID: payload.OrganizationID, ReceiverID: t.Key})
	}
	if err != nil {
		return err
	}
	org, err := s.Directory.OrganizationByID(ctx, r.OrganizationID)
	if err != nil {
		return err
	}
	open, ok, err := s.open(r, org.Features)
	switch {
	case err != nil:
		return err
	case !r.BrokenAt.IsZero():
		return s.abandon(ctx, r, "the notification service is broken: "+r.BrokenReason)
	case r.Disabled:
		return s.abandon(ctx, r, "the notification service was disabled")
	case !ok || !open.provider.pushes():
		return s.abandon(ctx, r, "the notification service is not available")
	}
	return s.newWorker(org, open, "").run(ctx)
}

func (s *Service) newWorker(org *identity.Organization, r openReceiver, host string) *worker {
	return &worker{
		Service: s, org: org, receiver: r, host: host,
		queues: map[string][]*Delivery{}, busy: map[string]bool{}, more: true, results: make(chan result, maxInFlight),
	}
}

// removeDeliveries removes the deliveries of a receiver that was deleted, which one of them names.
func (s *Service) removeDeliveries(ctx context.Context, d *Delivery) error {
	return s.DB.Write(ctx, func(q *db.Q) error {
		removed, err := removeAll(q, d.ReceiverID)
		if err != nil {
			return err
		}
		if removed > 0 {
			return tasks.Add(q, d.task(s.Clock()))
		}
		return saveFailures(q, d.ReceiverID, failures{})
	})
}

// abandon ends the pending deliveries of a receiver that gets none.
func (s *Service) abandon(ctx context.Context, r *notifications.Receiver, reason string) error {
	return s.DB.Write(ctx, func(q *db.Q) error {
		n, err := giveUp(q, r.ID, reason, s.Clock())
		if err != nil {
			return err
		}
		if n == giveUpBatch {
			if err := tasks.Add(q, sendAt(r.OrganizationID, r.ID, s.Clock())); err != nil {
				return err
			}
		}
		return trim(q, r.ID)
	})
}

// A worker sends the deliveries of one receiver or host. Its goroutine owns all fields; attempts run on goroutines of their
// own and report to results.
type worker struct {
	*Service
	org      *identity.Organization
	receiver openReceiver
	host     string // that takes the place of a receiver; empty: none
	failures failures

	queues map[string][]*Delivery // pending deliveries in order, by order key
	keys   []string               // of queues, in order of their first deliveries
	size   int                    // of all queues
	last   int64                  // the number of the last delivery that was loaded
	more   bool                   // there may be more to load

	busy     map[string]bool // keys with a delivery on its way
	inFlight int
	results  chan result
	ended    int    // deliveries since the last trim
	broken   string // why nothing more is sent to the receiver; empty: it works
}

// A result is what became of an attempt.
type result struct {
	delivery *Delivery
	answer   Answer
	took     time.Duration
	err      error // why there was no attempt: errGone, or a failure of the server
}

// task returns the task that goes on at a time.
func (w *worker) task(at time.Time) tasks.Task {
	return (&Delivery{OrganizationID: w.org.ID, ReceiverID: w.receiver.ID, Host: w.host}).task(at)
}

func (w *worker) run(ctx context.Context) error {
	err := w.DB.Read(ctx, func(q *db.Q) (err error) {
		w.failures, err = failuresOf(q, w.receiver.ID)
		return err
	})
	if err != nil {
		return err
	}
	stop := time.Now().Add(runFor)
	for err == nil {
		if ctx.Err() == nil && time.Now().Before(stop) && !w.isDraining() && w.broken == "" {
			err = w.dispatch(ctx)
		}
		if err != nil || w.inFlight == 0 {
			break
		}
		err = w.record(ctx, w.collect())
	}
	for w.inFlight > 0 { // after an error
		w.collect()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = w.finish(ctx)
	}
	return err
}

// dispatch starts as many attempts as may be on their way.
func (w *worker) dispatch(ctx context.Context) error {
	now := w.Clock()
	for w.inFlight < w.failures.atOnce(now) {
		d, err := w.next(ctx, now)
		if err != nil || d == nil {
			return err
		}
		w.busy[d.OrderKey] = true
		w.inFlight++
		go func() { w.results <- w.attempt(ctx, d) }()
	}
	return nil
}

// next returns the oldest delivery that is due and has none of its key before it, or nil.
func (w *worker) next(ctx context.Context, now time.Time) (*Delivery, error) {
	for {
		for _, key := range w.keys {
			if d := w.queues[key][0]; !w.busy[key] && !d.NextAttemptAt.After(now) {
				return d, nil
			}
		}
		if !w.more || w.size >= windowSize {
			return nil, nil
		}
		if err := w.load(ctx); err != nil {
			return nil, err
		}
	}
}

// load adds pending deliveries to the queues.
func (w *worker) load(ctx context.Context) error {
	limit := loadSize
	if !w.failures.nextAttemptAt.IsZero() {
		limit = maxInFlight // it may be for one attempt only
	}
	var list []*Delivery
	err := w.DB.Read(ctx, func(q *db.Q) (err error) {
		list, err = pendingAfter(q, w.receiver.ID, w.last, limit)
		return err
	})
	for _, d := range list {
		if len(w.queues[d.OrderKey]) == 0 {
			w.keys = append(w.keys, d.OrderKey)
		}
		w.queues[d.OrderKey] = append(w.queues[d.OrderKey], d)
		w.last = d.Seq
		w.size++
	}
	w.more = len(list) == limit
	return err
}

// attempt tries to send a delivery.
func (w *worker) attempt(ctx context.Context, d *Delivery) result {
	m, err := w.message(ctx, d, w.org, w.receiver)
	if err != nil {
		return result{delivery: d, err: err}
	}
	started := time.Now()
	answer := w.sendMessage(ctx, m)
	if ctx.Err() != nil && answer.Status == 0 {
		err = ctx.Err() // the server stops; that says nothing about the receiver
	}
	return result{delivery: d, answer: answer, took: time.Since(started), err: err}
}

// sendMessage sends a message in the way of its provider. One that the provider cannot handle is not tried again.
func (w *worker) sendMessage(ctx context.Context, m *Message) (answer Answer) {
	var failed error
	defer func() {
		if failed != nil {
			w.Log.ErrorContext(ctx, "send notification failed", "service", m.Receiver.ID, "delivery", m.ID, "error", failed)
			answer = Answer{Err: errInternal, Permanent: true}
		}
	}()
	defer core.CatchPanic(&failed)
	if send := w.receiver.provider.Send; send != nil {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return send(ctx, w.clients[true], m)
	}
	request, err := w.receiver.provider.Request(m)
	if err != nil {
		failed = err
		return answer
	}
	return w.do(ctx, request)
}

// errInternal is the reason that people see for a failure whose cause is in the log.
var errInternal = errors.New("internal error")

// collect waits for a result and returns it with all others that there are.
func (w *worker) collect() []result {
	list := []result{<-w.results}
	for {
		select {
		case r := <-w.results:
			list = append(list, r)
		default:
			w.inFlight -= len(list)
			return list
		}
	}
}
