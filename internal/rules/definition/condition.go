package definition

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/condition"
)

// A conditionKey is the text of a condition and whether it belongs to a notification.
type conditionKey struct {
	text         string
	notification bool
}

// condition returns the text of a condition and records a problem if it is not valid. Blank text means none.
func (v value) condition(notification bool) string {
	text := v.text()
	if strings.TrimSpace(text) == "" {
		return ""
	}
	if v.pending() {
		return text
	}
	if wrong := v.r.checkCondition(v, conditionKey{text, notification}); wrong != nil {
		v.r.problemInside(v.node, Problem{wrong.Line, wrong.Column, v.name + ": " + wrong.Message})
	}
	return text
}

// checkCondition returns the error of a condition, or nil. It checks each condition once, since many steps may
// share one.
func (r *reader) checkCondition(v value, key conditionKey) *condition.Error {
	if wrong, seen := r.conditions[key]; seen || r.problems.full() {
		return wrong
	}
	cost, wrong := condition.Check(key.text, key.notification)
	if r.patterns += cost; r.patterns > maxPatterns {
		r.abort(v.node, "the regular expressions of all conditions together are too large")
	}
	r.conditions[key] = wrong
	return wrong
}

// notifyConditions checks the conditions in a list of notifications.
func (v value) notifyConditions() {
	if !v.is(yaml.SequenceNode) {
		return
	}
	for _, item := range v.list("") {
		if item.is(yaml.MappingNode) {
			item.mapping("").get("if").condition(true)
		}
	}
}
