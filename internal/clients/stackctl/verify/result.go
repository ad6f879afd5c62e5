package verify

import "fmt"

// Outcome is the outcome of a rule.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// A Result is the result of checking one rule.
type Result struct {
	Section string  `json:"section"`
	Rule    string  `json:"rule"`
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	// Reason is why the rule was skipped.
	Reason string `json:"reason,omitempty"`
	// Expected and Got describe why a rule failed.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Exchange is the call that failed the rule, without secrets.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// A checker checks one rule and stops at the first failure.
type checker struct {
	*suite
}

// stop ends a check early. Checks are easiest to read as a list of expectations, so stop is a panic from the
// failed expectation to runRule.
type stop struct{ Result }

// runRule checks one rule.
func (k *suite) runRule(section string, rule Rule) (result Result) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case stop:
			result = v.Result
		default:
			panic(v)
		}
		result.Section, result.Rule, result.Text = section, rule.ID, rule.Text
	}()
	t := &checker{k}
	defer t.deregisterOwn()
	rule.check(t)
	return Result{Outcome: Pass}
}

// deregisterOwn de-registers the stacks that only this rule uses, so that other rules do not reach the
// organization's limit.
func (t *checker) deregisterOwn() {
	for key := range t.stacks {
		if key != t.main {
			if a, err := t.server.send(t.ctx, t.request(deregister, key, "", nil)); err == nil && a.ok() {
				delete(t.stacks, key)
			}
		}
	}
}

// skip ends the check: the rule cannot be checked.
func (t *checker) skip(format string, args ...any) {
	panic(stop{Result{Outcome: Skip, Reason: fmt.Sprintf(format, args...)}})
}

// fail ends the check: the response is not as expected.
func (t *checker) fail(a *response, expected, got string) {
	r := Result{Outcome: Fail, Expected: expected, Got: t.server.redact(got)}
	if a != nil {
		r.Exchange = a.exchange(t.server)
	}
	panic(stop{r})
}

// want fails the check unless holds is true.
func (t *checker) want(a *response, holds bool, expected, gotFormat string, args ...any) {
	if !holds {
		t.fail(a, expected, fmt.Sprintf(gotFormat, args...))
	}
}
