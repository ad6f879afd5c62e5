package jobapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
)

// attributesOf returns the attributes of a step as JSON values, nil for those that are not set.
func attributesOf(s *builds.Step) map[string]any {
	env := s.Work.Env
	if env == nil {
		env = map[string]string{}
	}
	values := map[string]any{
		"id":                s.ID,
		"key":               orNil(s.Key),
		"type":              string(s.Type),
		"label":             s.Label,
		"state":             string(s.State),
		"outcome":           string(s.Outcome),
		"command":           orNil(s.Work.Command),
		"agents":            append([]string{}, s.Work.Agents...),
		"env":               env,
		"if":                orNil(s.Work.If),
		"depends_on":        s.DependsOn,
		"notify":            s.Work.Attributes["notify"],
		"priority":          s.Priority,
		"parallelism":       nil,
		"timeout":           nil,
		"concurrency_key":   nil,
		"concurrency_limit": nil,
	}
	if s.Parallelism > 0 {
		values["parallelism"] = s.Parallelism
	}
	if s.Timeout != nil {
		values["timeout"] = *s.Timeout
	}
	if c := s.Concurrency; c != nil {
		values["concurrency_key"], values["concurrency_limit"] = c.Group, c.Limit
	}
	return values
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// ExportStep returns an attribute of a step as text, or all attributes as a JSON object if attribute is empty. With
// asJSON, the value is JSON; otherwise a list has one item per line and variables the form NAME=value.
func ExportStep(s *builds.Step, attribute string, asJSON bool) (string, error) {
	values := attributesOf(s)
	if attribute == "" {
		return jsonOf(values)
	}
	value, ok := values[attribute]
	switch {
	case !ok:
		known := slices.Sorted(maps.Keys(values))
		return "", core.Errorf(core.Unprocessable, "A step has no attribute %q; it has %s", attribute, strings.Join(known, ", "))
	case asJSON:
		return jsonOf(value)
	}
	return plain(value)
}

func plain(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case []string:
		return strings.Join(v, "\n"), nil
	case map[string]string:
		return strings.TrimSuffix(builds.EnvText(v), "\n"), nil
	}
	return jsonOf(value)
}

func jsonOf(value any) (string, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "", fmt.Errorf("write an attribute of a step: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
