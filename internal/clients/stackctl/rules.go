package stackctl

import (
	"slices"
	"strings"
)

// suitable returns the jobs whose agent rules the stack's tags satisfy.
func (s *Stack) suitable(jobs []ScheduledJob) []ScheduledJob {
	return slices.DeleteFunc(jobs, func(j ScheduledJob) bool {
		if satisfies(s.Tags, j.Rules) {
			return false
		}
		s.logSkipped(j.Rules)
		return true
	})
}

// satisfies reports whether an agent with tags may run a job with agent rules: for each rule it needs a tag
// with that key and value. A rule without a value, or with *, is satisfied by any value. The rule about the
// queue is satisfied by every job of the queue's list.
func satisfies(tags, rules []string) bool {
	for _, rule := range rules {
		key, value := splitTag(rule)
		satisfied := func(tag string) bool {
			k, v := splitTag(tag)
			return k == key && (v == value || value == "" || value == "*")
		}
		if key != "queue" && !slices.ContainsFunc(tags, satisfied) {
			return false
		}
	}
	return true
}

func splitTag(tag string) (key, value string) {
	key, value, _ = strings.Cut(tag, "=")
	return strings.TrimSpace(key), strings.TrimSpace(value)
}

// maxSkipped bounds the rules that are remembered, so that each is logged once.
const maxSkipped = 1000

// logSkipped logs, once, that jobs with rules are left to others.
func (s *Stack) logSkipped(rules []string) {
	text := strings.Join(rules, ",")
	s.mu.Lock()
	known := s.skipped[text] || len(s.skipped) >= maxSkipped
	if !known {
		s.skipped[text] = true
	}
	s.mu.Unlock()
	if !known {
		s.Log.Warn("skip jobs with unsatisfied agent rules", "rules", rules, "tags", s.Tags)
	}
}
