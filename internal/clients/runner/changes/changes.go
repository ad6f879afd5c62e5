// Package changes decides which steps of an uploaded pipeline run, by the files that the build changed.
//
// [Parse] reads the if_changed of a step: patterns of files, and patterns of files that do not count. [Finder] lists the
// files that differ from the merge base of the build's commit and a base branch, with git in the job's checkout.
package changes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A Condition is the if_changed of a step.
type Condition struct {
	include, exclude []*regexp.Regexp
}

// Limits of a condition, so that a small file does not become a large expression.
const (
	maxPattern  = 2000 // bytes
	maxPatterns = 200
	maxBraces   = 10 // nested
)

// Parse reads the value of if_changed: a pattern, a list of patterns, or a mapping with include and exclude.
func Parse(value any) (*Condition, error) {
	c := &Condition{}
	var err error
	fields, isMapping := value.(map[string]any)
	if !isMapping {
		c.include, err = patterns("if_changed", value)
		return c, err
	}
	for name := range fields {
		if name != "include" && name != "exclude" {
			return nil, fmt.Errorf("if_changed has the key %q; it can have include and exclude", name)
		}
	}
	if fields["include"] == nil {
		return nil, errors.New("if_changed needs include, the patterns of files for which the step runs")
	}
	if c.include, err = patterns("include of if_changed", fields["include"]); err != nil {
		return nil, err
	}
	if fields["exclude"] != nil {
		c.exclude, err = patterns("exclude of if_changed", fields["exclude"])
	}
	return c, err
}

func patterns(what string, value any) ([]*regexp.Regexp, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	if len(list) > maxPatterns {
		return nil, fmt.Errorf("%s has %d patterns; at most %d are possible", what, len(list), maxPatterns)
	}
	var compiled []*regexp.Regexp
	for _, item := range list {
		text, ok := item.(string)
		if !ok || text == "" {
			return nil, fmt.Errorf("%s must be a pattern such as docs/**, or a list of patterns", what)
		}
		p, err := compile(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		compiled = append(compiled, p)
	}
	return compiled, nil
}

// Match reports whether one of the files counts.
func (c *Condition) Match(files []string) bool {
	for _, file := range files {
		if matchAny(c.include, file) && !matchAny(c.exclude, file) {
			return true
		}
	}
	return false
}

func matchAny(list []*regexp.Regexp, file string) bool {
	for _, p := range list {
		if p.MatchString(file) {
			return true
		}
	}
	return false
}

// compile translates a pattern: ** is any text, also across folders; **/ also none; * and ? stay inside a folder; [a-z]
// and [!a-z] are one character; {a,b}, or a comma outside of braces, separates alternatives; \ makes the next character
// plain.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a pattern has at most %d bytes, not %d", maxPattern, len(pattern))
	}
	var b strings.Builder
	b.WriteString(`(?s)\A(?:`)
	depth := 0
	rest := strings.TrimPrefix(pattern, "./")
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString(`(?:.*/)?`)
			rest = rest[3:]
			continue
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			rest = strings.TrimLeft(rest, "*")
			continue
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
		case rest[0] == '?':
			b.WriteString(`[^/]`)
		case rest[0] == '{':
			if depth++; depth > maxBraces {
				return nil, fmt.Errorf("the pattern %q has braces more than %d deep", pattern, maxBraces)
			}
			b.WriteString(`(?:`)
		case rest[0] == '}' && depth > 0:
			depth--
			b.WriteString(`)`)
		case rest[0] == ',':
			b.WriteString(`|`)
		case rest[0] == '[':
			class, after, ok := class(rest)
			if !ok {
				return nil, fmt.Errorf("the pattern %q has a [ without ]", pattern)
			}
			b.WriteString(class)
			rest = after
			continue
		case rest[0] == '\\' && len(rest) > 1:
			rest = rest[1:]
			fallthrough
		default:
			_, size := utf8.DecodeRuneInString(rest)
			b.WriteString(regexp.QuoteMeta(rest[:size]))
			rest = rest[size:]
			continue
		}
		rest = rest[1:]
	}
	if depth > 0 {
		return nil, fmt.Errorf("the pattern %q has a { without }", pattern)
	}
	b.WriteString(`)\z`)
	compiled, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not valid", pattern)
	}
	return compiled, nil
}

// class translates a class of characters at the start of text, and returns what follows it.
func class(text string) (expression, rest string, ok bool) {
	inner := text[1:]
	not := strings.HasPrefix(inner, "!") || strings.HasPrefix(inner, "^")
	if not {
		inner = inner[1:]
	}
	end := strings.IndexByte(inner, ']')
	if end == 0 { // []a] has ] as its first character
		if end = strings.IndexByte(inner[1:], ']') + 1; end == 0 {
			return "", "", false
		}
	}
	if end < 0 {
		return "", "", false
	}
	quoted := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(inner[:end])
	if not {
		return `[^/` + quoted + `]`, inner[end+1:], true
	}
	return `[` + quoted + `]`, inner[end+1:], true
}
