package definition

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A conditionKey is the text of a condition and whether it is a notification's.
type conditionKey struct {
	text         string
	notification bool
}

// condition reads the text of a condition and checks it. Blank text is no condition.
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

// checkCondition returns what is wrong with a condition, or nil. It reads each condition once, since
// many steps may share one.
func (r *reader) checkCondition(v value, key conditionKey) *ConditionError {
	wrong, seen := r.conditions[key]
	if seen || r.problems.full() {
		return wrong
	}
	p := newConditionParser(key.text, key.notification)
	_, err := p.parse()
	if err != nil {
		wrong, _ = errors.AsType[*ConditionError](err)
	}
	if r.patterns += p.weight; r.patterns > maxAllPatterns {
		r.giveUp(v.node, "the regular expressions of all conditions together are too large")
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
