package verify

import "fmt"

// Outcome is what came of a rule.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// A Result is what came of checking one rule.
type Result struct {
	Section string  `json:"section"`
	Rule    string  `json:"rule"`
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	// Reason is why the rule was skipped.
	Reason string `json:"reason,omitempty"`
	// Expected and Got say what a rule that failed wanted and what came instead.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Exchange is the call that it failed at, without secrets.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// A trial is the check of one rule, which ends at the first thing that is not as it should be.
type trial struct {
	*kit
}

// verdict ends a trial early. Checks read best as a list of what must hold, so it travels as a panic from
// the expectation that fails to judge, and no further.
type verdict struct{ Result }

// judge checks one rule.
func (k *kit) judge(section string, rule Rule) (result Result) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case verdict:
			result = v.Result
		default:
			panic(v)
		}
		result.Section, result.Rule, result.Text = section, rule.ID, rule.Text
	}()
	t := &trial{k}
	defer t.tidy()
	rule.check(t)
	return Result{Outcome: Pass}
}

// tidy de-registers the stacks that the rule has registered for itself alone, so that the organization's
// limit is not reached by rules about something else.
func (t *trial) tidy() {
	for key := range t.stacks {
		if key != t.main {
			if a, err := t.server.send(t.ctx, t.request(deregister, key, "", nil)); err == nil && a.ok() {
				delete(t.stacks, key)
			}
		}
	}
}

// skip ends the trial: the rule cannot be checked.
func (t *trial) skip(format string, args ...any) {
	panic(verdict{Result{Outcome: Skip, Reason: fmt.Sprintf(format, args...)}})
}

// fail ends the trial: the answer is not what was expected.
func (t *trial) fail(a *answer, expected, got string) {
	r := Result{Outcome: Fail, Expected: expected, Got: t.server.redact(got)}
	if a != nil {
		r.Exchange = a.exchange(t.server)
	}
	panic(verdict{r})
}

// want wants something to hold of an answer.
func (t *trial) want(a *answer, holds bool, expected, gotFormat string, args ...any) {
	if !holds {
		t.fail(a, expected, fmt.Sprintf(gotFormat, args...))
	}
}
