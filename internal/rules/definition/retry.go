package definition

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Retry holds the retry settings of a step.
type Retry struct {
	// Automatic rules are tried in order; the first match decides.
	Automatic []RetryRule
	Manual    ManualRetry
}

// A RetryRule matches a failed job if all its conditions match. An empty condition always matches.
type RetryRule struct {
	ExitStatus ExitStatus
	// Signal is an upper-case name without SIG, "none" or "*".
	Signal string
	// SignalReason is one of signalReasons, "none" or "*".
	SignalReason string
	// Limit is how often the rule may retry a job. Zero forbids retries.
	Limit int
}

// ManualRetry controls whether people may retry a job.
type ManualRetry struct {
	Allowed        bool
	PermitOnPassed bool
	// Reason is shown when a retry is not allowed.
	Reason string
}

// ExitStatus is a condition on the exit status of a job: any status except zero, or one of Codes. The zero
// value is no condition.
type ExitStatus struct {
	Any   bool
	Codes []int
}

// SoftFail selects the failures that do not fail the build.
type SoftFail struct {
	// Always covers every failure, including cancellation; then ExitStatus is empty.
	Always     bool
	ExitStatus ExitStatus
}

const (
	defaultRetryLimit = 2
	maxRetryLimit     = 10
)

// signalReasons are the reasons why a job was stopped from outside.
var signalReasons = []string{
	"cancel", "agent_stop", "agent_refused", "agent_incompatible", "agent_lost",
	"process_run_error", "signature_rejected", "stack_error", "none", "*",
}

// defaultRetry returns the settings of a step without retry.
func defaultRetry() Retry {
	return Retry{Manual: ManualRetry{Allowed: true}}
}

// retry reads a mapping with automatic and manual.
func (v value) retry() Retry {
	retry := defaultRetry()
	m := v.mapping("a mapping with automatic and manual")
	if m == nil {
		return retry
	}
	retry.Automatic = m.get("automatic").automatic()
	retry.Manual = m.get("manual").manualRetry()
	m.warnUnknown()
	return retry
}

// automatic reads true, false, a rule, or a list of rules.
func (v value) automatic() []RetryRule {
	const expected = "true, false, a rule, or a list of rules"
	if !v.decided() {
		return nil
	}
	if on, ok := parseBool(v.node); ok {
		if !on {
			return nil
		}
		return []RetryRule{{ExitStatus: ExitStatus{Any: true}, Limit: defaultRetryLimit}}
	}
	if v.node.Kind == yaml.MappingNode {
		return []RetryRule{v.rule(expected)}
	}
	var rules []RetryRule
	for _, item := range v.list(expected) {
		rules = append(rules, item.rule("a rule, with exit_status, signal, signal_reason and limit"))
	}
	return rules
}

// rule reads one automatic retry rule.
func (v value) rule(expected string) RetryRule {
	m := v.itemMapping(expected)
	if m == nil {
		return RetryRule{}
	}
	rule := RetryRule{
		ExitStatus:   m.get("exit_status").exitStatus(),
		Signal:       m.get("signal").signal(),
		SignalReason: m.get("signal_reason").oneOf(signalReasons...),
		Limit:        defaultRetryLimit,
	}
	if limit := m.get("limit").integer(0, maxRetryLimit); limit != nil {
		rule.Limit = *limit
	}
	m.warnUnknown()
	return rule
}

// manualRetry reads true, false, or a mapping.
func (v value) manualRetry() ManualRetry {
	manual := ManualRetry{Allowed: true}
	if !v.decided() {
		return manual
	}
	if allowed, ok := parseBool(v.node); ok {
		manual.Allowed = allowed
		return manual
	}
	m := v.mapping("true, false, or a mapping with allowed, permit_on_passed and reason")
	if m == nil {
		return manual
	}
	manual.Allowed = m.get("allowed").boolean(true)
	manual.PermitOnPassed = m.get("permit_on_passed").boolean(false)
	manual.Reason = m.get("reason").text()
	m.warnUnknown()
	return manual
}

// exitStatus reads an exit status, a list of them, or "*". The status -1 means that the platform ended the job.
func (v value) exitStatus() ExitStatus {
	const low, high = -1, 255
	switch {
	case !v.set():
		return ExitStatus{}
	case v.is(yaml.ScalarNode) && v.node.Value == "*":
		return ExitStatus{Any: true}
	}
	items := []value{v}
	if v.is(yaml.SequenceNode) {
		items = v.list("")
	}
	var status ExitStatus
	for _, item := range items {
		if item.pending() {
			continue
		}
		code, ok := wholeNumber(item.node)
		if !ok || code < low || code > high {
			item.must(`a whole number from -1 to 255, a list of them, or "*"`)
			continue
		}
		status.Codes = append(status.Codes, int(code))
	}
	return status
}

// signal reads the name of a signal in upper or lower case, with or without SIG.
func (v value) signal() string {
	word := v.text()
	if v.pending() {
		return ""
	}
	if word == "" || word == "*" || strings.EqualFold(word, "none") {
		return strings.ToLower(word)
	}
	name := strings.TrimPrefix(strings.ToUpper(word), "SIG")
	letter := func(c rune) bool { return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !letter(c) }) {
		v.must(`the name of a signal such as SIGTERM, none, or "*"`)
		return ""
	}
	return name
}

// softFail reads true, false, or a list of mappings with exit_status.
func (v value) softFail() SoftFail {
	if !v.decided() {
		return SoftFail{}
	}
	if on, ok := parseBool(v.node); ok {
		return SoftFail{Always: on}
	}
	var status ExitStatus
	for _, item := range v.list("true, false, or a list of mappings with exit_status") {
		m := item.itemMapping("a mapping with exit_status")
		if m == nil {
			continue
		}
		exit := m.get("exit_status")
		if !exit.set() {
			v.r.problem(item.node, "an entry of %s has no key exit_status", v.name)
		}
		one := exit.exitStatus()
		status.Any = status.Any || one.Any
		status.Codes = append(status.Codes, one.Codes...)
		m.warnUnknown()
	}
	if status.Any {
		status.Codes = nil // covered by Always
	}
	return SoftFail{ExitStatus: status}
}
