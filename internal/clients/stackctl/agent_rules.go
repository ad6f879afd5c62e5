package stackctl

import (
	"slices"
	"strings"
)

// suitable returns the jobs whose agent rules match the stack's tags.
func (s *Stack) suitable(jobs []ScheduledJob) []ScheduledJob {
	return slices.DeleteFunc(jobs, func(j ScheduledJob) bool {
		if satisfies(s.Tags, j.Rules) {
			return false
		}
		s.logSkipped(j.Rules)
		return true
	})
}

// satisfies reports whether tags match agent rules: each rule needs a tag with its key and value. A rule
// without value, or with *, matches any value. The queue rule always matches, since the list contains only jobs
// of the queue.
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

// maxSkipped limits the remembered rules, each of which is logged once.
const maxSkipped = 1000

// logSkipped logs once that the stack does not run jobs with these rules.
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
