// Package verify is a conformance kit for the stacks API: a checklist of the protocol's rules, each a
// sentence and a check, that runs against any server. Authors of stacks learn the protocol from it, authors
// of servers learn what they got wrong. It is a client like anybody's and imports nothing of the server.
//
// The rules stand in one table, section by section, in the files rules_*.go; reading these from top to
// bottom is a course in the protocol. Each rule prepares what it needs by itself, so that one can be run
// without the others, and so that a server which breaks one rule fails that rule and not its neighbours.
//
// Some rules need jobs. For these the kit sets up a workshop by the REST API (workshop.go): a queue of its own, a
// pipeline whose jobs go there, builds of it. It takes all of that down when it ends, whatever happened,
// and de-registers its stacks. Calls keep within the rate limits that the server tells (server.go); the
// rules about these limits come last.
package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// A Rule is one promise of the protocol.
type Rule struct {
	// ID is what the rule is called by, such as register.new.
	ID string
	// Text is the rule, in a sentence.
	Text string

	check func(t *trial)
}

// A Section is a part of the protocol.
type Section struct {
	Title string
	Rules []Rule
}

// Sections are all rules, in the order in which they are checked.
func Sections() []Section {
	return []Section{
		authentication, registration, deregistration, list, reservation, tokens, acquisition,
		payload, states, finish, notifications, limits,
	}
}

// Config says what is checked, and with what.
type Config struct {
	// Endpoint is the server's agent URL, with /v3 at its end.
	Endpoint string
	// Token is an agent token of a cluster.
	Token string
	// RESTToken is a user's access token, with which the kit makes jobs; "": rules about jobs are skipped.
	RESTToken string
	// Queue is the key of the queue that is listed where no job is needed; "" is the cluster's default queue.
	Queue string
	// Quota allows the kit to use up the organization's limit of active stacks for a moment.
	Quota bool
	// Only is a pattern, as in [path.Match], of the rules that are checked; "" is all.
	Only string
	// Wait lets time pass. Unless it is nil the kit never sleeps by itself: tests move a clock instead.
	Wait func(ctx context.Context, d time.Duration)
}

// Matching returns the rules whose id matches a pattern; all for "".
func Matching(pattern string) ([]Section, error) {
	var some []Section
	for _, s := range Sections() {
		s.Rules = slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool {
			ok, _ := path.Match(pattern, r.ID)
			return pattern != "" && !ok
		})
		if len(s.Rules) > 0 {
			some = append(some, s)
		}
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a pattern such as register.*", pattern)
	}
	if len(some) == 0 {
		return nil, fmt.Errorf("no rule is called %q", pattern)
	}
	return some, nil
}

// farewell bounds what is done after the last rule.
const farewell = 20 * time.Second

// Run checks rules against a server, one after the other, and tells each result as it comes. The error is
// about the run itself: that it was ended early, or that something could not be cleaned up.
func Run(ctx context.Context, c Config, told func(Result)) error {
	sections, err := Matching(c.Only)
	if err != nil {
		return err
	}
	k := newKit(ctx, c)
	if err := k.server.reach(ctx); err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	for _, section := range sections {
		for _, rule := range section.Rules {
			if ctx.Err() != nil {
				break
			}
			result := k.judge(section.Title, rule)
			if ctx.Err() == nil { // else nothing can be said of it
				told(result)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	k.ctx = last
	return errors.Join(k.whole(ctx), k.cleanUp())
}

// whole returns an error when not all was checked that was to be.
func (k *kit) whole(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted before all rules were checked: %w", ctx.Err())
	case k.broken != nil:
		return fmt.Errorf("no jobs could be made: %w", k.broken)
	}
	return nil
}

// kit is one run of the checklist.
type kit struct {
	Config
	ctx    context.Context
	server *server
	seen   headersSeen

	suffix   string          // tells the things of this run from those of others
	names    int             // how many names were made
	stacks   map[string]bool // keys that are registered now
	main     string          // key of the stack that most rules use; "" before the first
	org      string          // slug of the organization; "" before the first rule that needs it
	workshop *workshop       // nil before the first rule that needs it
	second   *second         // likewise
	broken   error           // why there is no workshop, though one was asked for
	undoings []undoing       // what was made by the REST API, in order
	agents   []string        // session tokens of agents that are registered
}
