package definition

import (
	"fmt"
	"strings"
	"testing"
)

// Editors offer no key that has no effect.
func TestKeys_AreKnown(t *testing.T) {
	places := map[string]string{
		"pipeline": "%s: null\n", "command": "steps: [{command: x, %s: null}]", "wait": "steps: [{wait: ~, %s: null}]",
		"block": "steps: [{block: x, %s: null}]", "input": "steps: [{input: x, %s: null}]", "trigger": "steps: [{trigger: x, %s: null}]",
		"group": "steps: [{group: x, steps: [wait], %s: null}]",
		"build": "steps: [{trigger: x, build: {%s: null}}]", "retry": "steps: [{command: x, retry: {%s: null}}]",
		"automatic": "steps: [{command: x, retry: {automatic: {%s: null}}}]", "manual": "steps: [{command: x, retry: {manual: {%s: null}}}]",
		"matrix": "steps: [{command: x, matrix: {setup: [a], %s: null}}]", "fields": "steps: [{input: x, fields: [{text: a, key: b, %s: null}]}]", "select": "steps: [{input: x, fields: [{select: a, key: b, options: [{label: x, value: y}], %s: null}]}]",
		"options": "steps: [{input: x, fields: [{select: a, key: b, options: [{%s: null}]}]}]",
	}
	for place, keys := range Keys() {
		for _, key := range keys {
			p, err := Parse([]byte(fmt.Sprintf(places[place], key.Name)))
			text := fmt.Sprint(err)
			if p != nil {
				text = fmt.Sprint(p.Warnings)
			}
			if place == "fields" && (key.Name == "options" || key.Name == "multiple") {
				p, err = Parse([]byte(fmt.Sprintf(places["select"], key.Name)))
				text = fmt.Sprint(err)
				if p != nil {
					text = fmt.Sprint(p.Warnings)
				}
			}
			if strings.Contains(text, "has no key") {
				t.Errorf("%s in %s: %s", key.Name, place, text)
			}
			if key.Text == "" {
				t.Errorf("%s in %s has no text", key.Name, place)
			}
		}
	}
}
