// Package verify is a conformance suite for the stacks API: a checklist of the protocol's rules that runs
// against any server. It is an ordinary client and imports nothing of the server.
//
// The rules are in one table, by section, in the files rules_*.go; reading them from top to bottom teaches the
// protocol. Each rule prepares what it needs, so that it can run alone, and so that a server that breaks one
// rule fails only this rule.
//
// Some rules need jobs. For these the suite creates a fixture with the REST API (fixture.go): a queue, a
// pipeline whose jobs use it, and builds. It always deletes them at the end and de-registers its stacks. Calls
// respect the rate limits that the server reports (server.go); the rules about these limits come last.
package verify

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// A Rule is one requirement of the protocol.
type Rule struct {
	// ID identifies the rule, for example register.new.
	ID string
	// Text is the rule as a sentence.
	Text string

	check func(t *checker)
}

// A Section is a part of the protocol.
type Section struct {
	Title string
	Rules []Rule
}

// Sections returns all rules, in the order in which they are checked.
func Sections() []Section {
	return []Section{
		authentication, registration, deregistration, list, reservation, tokens, acquisition,
		payload, states, finish, notifications, limits,
	}
}

// Config configures a run.
type Config struct {
	// Endpoint is the server's agent URL, ending with /v3.
	Endpoint string
	// Token is an agent token of a cluster.
	Token string
	// RESTToken is a user's access token for creating jobs. If it is empty, rules that need jobs are skipped.
	RESTToken string
	// Queue is the key of the queue to list when no job is needed; "" is the cluster's default queue.
	Queue string
	// Quota allows the suite to exhaust the organization's limit of active stacks for a moment.
	Quota bool
	// Only is a pattern for rule ids, as in [path.Match]; "" matches all.
	Only string
	// Wait, if not nil, replaces sleeping: tests move a clock instead.
	Wait func(ctx context.Context, d time.Duration)
}

// Matching returns the rules whose id matches a pattern, or all for "".
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

// cleanupTimeout limits the cleanup after the last rule.
const cleanupTimeout = 20 * time.Second

// Run checks rules against a server, one by one, and reports each result. The error is about the run itself: it
// was interrupted, or something could not be cleaned up.
func Run(ctx context.Context, c Config, report func(Result)) error {
	sections, err := Matching(c.Only)
	if err != nil {
		return err
	}
	k := newSuite(ctx, c)
	if err := k.server.reach(ctx); err != nil {
		return fmt.Errorf("the server does not respond: %w", err)
	}
	for _, section := range sections {
		for _, rule := range section.Rules {
			if ctx.Err() != nil {
				break
			}
			result := k.runRule(section.Title, rule)
			if ctx.Err() == nil { // otherwise the result is not reliable
				report(result)
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	k.ctx = last
	return errors.Join(k.incomplete(ctx), k.cleanUp())
}

// incomplete returns an error if some rules were not checked.
func (k *suite) incomplete(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted before all rules were checked: %w", ctx.Err())
	case k.broken != nil:
		return fmt.Errorf("jobs could not be created: %w", k.broken)
	}
	return nil
}

// suite is one run of the checklist.
type suite struct {
	Config
	ctx    context.Context
	server *server
	seen   headersSeen

	suffix   string          // makes the names of this run unique
	names    int             // number of created names
	stacks   map[string]bool // keys of registered stacks
	main     string          // key of the stack that most rules use; "" before the first
	org      string          // slug of the organization; "" before the first rule that needs it
	fixture  *fixture        // nil before the first rule that needs it
	other    *otherCluster   // likewise
	broken   error           // why the fixture could not be created
	cleanups []cleanup       // in order of creation
	agents   []string        // session tokens of registered agents
}
