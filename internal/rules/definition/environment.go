package definition

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// env reads a mapping of variable names to scalars. Values keep the text as written; null becomes empty.
func (v value) env() Env {
	m := v.mapping("a mapping of variables to texts")
	if m == nil {
		return nil
	}
	var env Env
	for _, e := range m.entries {
		if why := badVariable(e.name); why != "" {
			v.r.problem(e.key, "%s has a variable %s: %s", v.name, message.Quote(e.name), why)
		}
		env = append(env, Variable{e.name, v.r.value(e.value, m.qualified(message.Quote(e.name))).text()})
	}
	return env
}

// badVariable returns what is wrong with the name of an environment variable, or "".
func badVariable(name string) string {
	switch {
	case name == "":
		return "a name cannot be empty"
	case strings.Contains(name, "="):
		return `a name cannot contain "="`
	}
	return ""
}

// agents reads agent query rules, a mapping or a list of key=value, and returns them as key=value. A rule
// without a value matches any value.
func (v value) agents() []string {
	if v.is(yaml.MappingNode) {
		return v.agentMap()
	}
	var rules []string
	for _, item := range v.list("a mapping of tags to values, or a list of key=value") {
		if !item.set() {
			continue
		}
		text := item.text()
		rule, ok := agentRule(text)
		if !ok {
			v.r.problem(item.node, "%s must have the form key=value, found %s", v.name, describe(item.node))
		}
		rules = append(rules, rule)
	}
	return rules
}

func (v value) agentMap() []string {
	var rules []string
	for _, e := range v.mapping("").entries {
		item := v.r.value(e.value, v.name+"."+message.Quote(e.name))
		text := item.text()
		if e.name == "" || strings.Contains(e.name, "=") {
			v.r.problem(e.key, `a key of %s cannot be empty or contain "=", found %s`, v.name, message.Quote(e.name))
		}
		if !item.set() {
			text = "*"
		}
		rules = append(rules, e.name+"="+text)
	}
	return rules
}

// agentRule returns a rule as key=value, and whether it has a key.
func agentRule(text string) (string, bool) {
	key, _, hasValue := strings.Cut(text, "=")
	if !hasValue {
		text += "=*"
	}
	return text, strings.TrimSpace(key) != ""
}
