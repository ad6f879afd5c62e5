package builds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Agents tell of the jobs of one build all at the same time, and each word needs the build's lock. So the
// agents of a process do not all wait for the lock: one unit of work is at it, and what is told meanwhile is
// done together in the next. However many agents work on a build, they need one connection and not one
// each, and the statements that concern the build are run for all of them once. Where nobody waits, a word
// is a unit of work of its own.

const (
	// maxTogether bounds the words of one unit of work.
	maxTogether = 100
	// togetherTimeout bounds one that is done for many, whose requests must not end it.
	togetherTimeout = 20 * time.Second
)

// A word is what is told of a job.
type word struct {
	ctx   context.Context
	jobID string
	// ends is set when the job ends with it, which may stop other jobs. Such words are done with others of
	// their sort, so that no job passes through two states in one unit of work, of which those who observe
	// it would see only the second.
	ends bool
	do   func(u *unit) error
	// done is told true when the word was done, and false when it must be done alone.
	done chan bool
}

// tell does what is told of a job: at once, or together with what else is told of jobs of its build.
func (s *Service) tell(ctx context.Context, orgID, jobID string, ends bool, do func(u *unit) error) error {
	buildID, err := s.buildOf(ctx, orgID, jobID)
	if err != nil {
		return err
	}
	w := &word{ctx, jobID, ends, do, make(chan bool, 1)}
	if s.turns.enter(buildID, w) {
		defer func() {
			if s.turns.pass(buildID) {
				go s.takeTurns(orgID, buildID)
			}
		}()
		return s.change(ctx, orgID, buildID, do)
	}
	select {
	case done := <-w.done:
		if done {
			return nil
		}
		return s.change(ctx, orgID, buildID, do)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turns are the builds that somebody is at, with the words that wait. The zero value is ready.
type turns struct {
	mu      sync.Mutex
	waiting map[string][]*word // by build
}

// enter reports whether nobody is at a build, so that it is the word's turn. Else the word waits.
func (t *turns) enter(buildID string, w *word) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[string][]*word{}
	}
	words, busy := t.waiting[buildID]
	if busy {
		words = append(words, w)
	}
	t.waiting[buildID] = words
	return !busy
}

// pass ends a turn, and reports whether there must be another.
func (t *turns) pass(buildID string) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[buildID]) > 0 {
		return true
	}
	delete(t.waiting, buildID)
	return false
}

// next returns the words that can be done together with the one that has waited for longest: of its sort,
// and one for each job.
func (t *turns) next(buildID string) (taken []*word) {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs := map[string]bool{}
	var left []*word
	for _, w := range t.waiting[buildID] {
		if len(taken) < maxTogether && !jobs[w.jobID] && (len(taken) == 0 || w.ends == taken[0].ends) {
			taken = append(taken, w)
		} else {
			left = append(left, w)
		}
		jobs[w.jobID] = true
	}
	t.waiting[buildID] = left
	return taken
}

// takeTurns does what waits for a build until nothing does.
func (s *Service) takeTurns(orgID, buildID string) {
	for more := true; more; more = s.turns.pass(buildID) {
		words := s.turns.next(buildID)
		words = slices.DeleteFunc(words, func(w *word) bool { return w.ctx.Err() != nil })
		for len(words) > 1 {
			refused := s.doTogether(orgID, buildID, words)
			if refused == nil {
				break
			}
			refused.done <- false
			words = slices.DeleteFunc(words, func(w *word) bool { return w == refused })
		}
		if len(words) == 1 {
			words[0].done <- false
		}
	}
}

// doTogether does words in one unit of work and tells them. If one of them is refused, all is undone and it
// returns that one: why, it will hear when it is done alone, since what the others have changed by then may
// be the reason. If anything else is wrong, each is told to do it alone.
func (s *Service) doTogether(orgID, buildID string, words []*word) (refused *word) {
	ctx, cancel := context.WithTimeout(context.Background(), togetherTimeout)
	defer cancel()
	err := s.change(ctx, orgID, buildID, func(u *unit) (err error) {
		refused = nil
		if err := u.run.Expect(jobsTold(words)...); err != nil {
			return err
		}
		for _, w := range words {
			if err := try(w, u); err != nil {
				refused = w
				return err
			}
		}
		return nil
	})
	if err != nil && refused != nil {
		return refused
	}
	for _, w := range words {
		w.done <- err == nil
	}
	return nil
}

// try does a word among others, whom a panic must not concern.
func try(w *word, u *unit) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return w.do(u)
}

func jobsTold(words []*word) []string {
	ids := make([]string, len(words))
	for i, w := range words {
		ids[i] = w.jobID
	}
	return ids
}
