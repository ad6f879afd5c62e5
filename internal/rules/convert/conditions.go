package convert

import (
	"regexp"
	"strings"
)

// events are the events of Woodpecker and Drone as conditions.
var events = map[string]string{
	"push":         "build.pull_request.id == null && build.tag == null",
	"pull_request": "build.pull_request.id != null",
	"tag":          "build.tag != null",
	"cron":         `build.source == "schedule"`,
	"manual":       `build.source == "ui"`,
	"custom":       `build.source == "api"`,
}

// conditions converts when of Woodpecker and Drone: a mapping whose entries must all hold, or a list of such mappings of
// which one must.
func (c *converter) conditions(when node) string {
	var any []string
	for _, item := range when.items() {
		if !item.isMapping() {
			continue
		}
		all := ""
		for _, p := range item.pairs() {
			all = both(all, c.condition(p))
		}
		if all == "" {
			return "" // it always holds, or is not understood
		}
		any = append(any, all)
	}
	return oneOf(any)
}

func (c *converter) condition(p entry) string {
	include, exclude := p.value.texts(), p.value.get("exclude").texts()
	if p.value.isMapping() {
		include = p.value.get("include").texts()
	}
	switch p.key {
	case "branch":
		return both(matchAny("build.branch", include), negated(matchAny("build.branch", exclude)))
	case "tag", "ref":
		if p.key == "ref" {
			include, exclude = branchesOf(include), branchesOf(exclude)
			return both(matchAny("build.branch", include), negated(matchAny("build.branch", exclude)))
		}
		return matchAny("build.tag", include)
	case "event":
		return both(c.eventsOf(p.value, include), negated(c.eventsOf(p.value, exclude)))
	}
	if p.key == "path" {
		c.note(p.value, "the condition path was left out; use if_changed")
		return ""
	}
	c.note(p.value, "the condition %s was left out; write it as an if condition", p.key)
	return ""
}

func branchesOf(refs []string) (list []string) {
	for _, ref := range refs {
		if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			list = append(list, branch)
		}
	}
	return list
}

func (c *converter) eventsOf(at node, names []string) string {
	var list []string
	for _, name := range names {
		condition, ok := events[name]
		if !ok {
			c.note(at, "the event %s was left out", name)
			continue
		}
		list = append(list, condition)
	}
	return oneOf(list)
}

// matchAny returns a condition that a variable has one of some values, in which * matches anything.
func matchAny(variable string, patterns []string) string {
	var list []string
	for _, p := range patterns {
		if strings.ContainsAny(p, "*?[{") {
			list = append(list, variable+" =~ /^"+globExpression(p)+"$/")
			continue
		}
		list = append(list, variable+` == "`+strings.ReplaceAll(p, `"`, `\"`)+`"`)
	}
	return oneOf(list)
}

// globExpression returns a regular expression for a pattern with *, ** and ?.
func globExpression(pattern string) string {
	text := regexp.QuoteMeta(pattern)
	text = strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]*", `\?`, "[^/]").Replace(text)
	return strings.ReplaceAll(text, "/", `\/`)
}

// both returns a condition that holds if two do; "" always holds.
func both(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return grouped(a, "||") + " && " + grouped(b, "||")
}

func oneOf(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	for i := range list {
		list[i] = grouped(list[i], "&&")
	}
	return strings.Join(list, " || ")
}

func negated(condition string) string {
	if condition == "" {
		return ""
	}
	return "!(" + condition + ")"
}

// grouped puts a condition into parentheses if it contains an operator that binds less.
func grouped(condition, operator string) string {
	if strings.Contains(condition, operator) {
		return "(" + condition + ")"
	}
	return condition
}
