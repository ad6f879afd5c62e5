package pipelinepages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

// maxVisualSteps bounds the steps that the editor shows. Pipelines with more are changed over the API or as YAML.
const maxVisualSteps = 200

// A visualDraft is visual steps in the editor: the values of the fields of each. Every button sends all of them, so
// that the editor works without script and the server alone knows how steps change.
type visualDraft struct {
	head  url.Values // fields above the steps
	env   string
	steps []map[string]string
}

// The kinds of visual steps, in the order in which they are offered.
var visualKinds = []pages.Option{{Value: "script", Text: "Commands"}, {Value: "waiter", Text: "Wait"}, {Value: "manual", Text: "Block"}, {Value: "trigger", Text: "Trigger"}}

const envHint = "One NAME=value to a line. Values with line breaks are in quotes, as in JSON."

// visualFields are the fields of each kind, named as in the API. Those from a number on are folded.
var visualFields = map[string]struct {
	fields []pages.Field
	folded int
}{
	"script": {[]pages.Field{
		{Name: "name", Label: "Label", Placeholder: "Tests"},
		{Name: "command", Label: "Commands", Kind: pages.CodeField, Placeholder: "make test", Hint: "One to a line."},
		{Name: "agent_query_rules", Label: "Agents", Kind: pages.LinesField, Placeholder: "queue=linux", Hint: "One key=value to a line; empty: the default queue."},
		{Name: "env", Label: "Environment variables", Kind: pages.CodeField, Placeholder: "NAME=value", Hint: envHint},
		{Name: "artifact_paths", Label: "Artifacts", Placeholder: "logs/*;coverage/**/*", Hint: "Separated by semicolons."},
		{Name: "branch_configuration", Label: "Branches", Placeholder: "main release/*"},
		{Name: "timeout_in_minutes", Label: "Time limit, in minutes", Kind: pages.NumberField},
		{Name: "parallelism", Label: "Parallel jobs", Kind: pages.NumberField},
		{Name: "concurrency", Label: "Jobs of the concurrency group at a time", Kind: pages.NumberField},
		{Name: "concurrency_group", Label: "Concurrency group"},
		{Name: "plugins", Label: "Plugins", Kind: pages.CodeField, Placeholder: `[{"docker#v5.11.0": {"image": "golang"}}]`, Hint: "A list in JSON."},
	}, 3},
	"waiter": {nil, 0},
	"manual": {[]pages.Field{{Name: "label", Label: "Label", Placeholder: "Release?"}}, 1},
	"trigger": {[]pages.Field{
		{Name: "trigger_project_slug", Label: "Pipeline", Required: true, Placeholder: "deploy", Hint: "Its name in URLs."},
		{Name: "label", Label: "Label"},
		{Name: "async", Label: "Go on without waiting for the build", Kind: pages.CheckField},
		{Name: "build.message", Label: "Message"},
		{Name: "build.branch", Label: "Branch of the build"},
		{Name: "build.commit", Label: "Commit", Placeholder: "HEAD"},
		{Name: "build.env", Label: "Environment variables", Kind: pages.CodeField, Placeholder: "NAME=value", Hint: envHint},
		{Name: "branch_configuration", Label: "Branches", Placeholder: "main release/*"},
		{Name: "parallelism", Label: "Builds", Kind: pages.NumberField},
	}, 3},
}

// draftOf returns the draft of a pipeline's steps.
func draftOf(steps []definition.VisualStep, env map[string]string) visualDraft {
	d := visualDraft{env: envText(env)}
	for _, s := range steps {
		values := map[string]string{
			"type": s.Type, "name": s.Name, "label": s.Label, "command": s.Command, "artifact_paths": s.ArtifactPaths,
			"branch_configuration": s.BranchConfiguration, "env": envText(s.Env), "timeout_in_minutes": pages.Digits(s.TimeoutInMinutes),
			"agent_query_rules": strings.Join(s.AgentQueryRules, "\n"), "concurrency": pages.Digits(s.Concurrency), "concurrency_group": s.ConcurrencyGroup,
			"parallelism": pages.Digits(s.Parallelism), "plugins": string(s.Plugins), "trigger_project_slug": s.Pipeline,
		}
		if s.Async {
			values["async"] = "true"
		}
		if b := s.Build; b != nil {
			values["build.message"], values["build.branch"], values["build.commit"], values["build.env"] = pages.Text(b.Message), pages.Text(b.Branch), pages.Text(b.Commit), envText(b.Env)
		}
		d.steps = append(d.steps, values)
	}
	return d
}

// readDraft returns the draft in a form.
func readDraft(values url.Values) (visualDraft, error) {
	d := visualDraft{head: values, env: values.Get("env")}
	for i := 0; values.Has(fieldOf(i, "type")); i++ {
		if i == maxVisualSteps {
			return d, core.Errorf(core.BadRequest, "The editor is for up to %d steps", maxVisualSteps)
		}
		step := map[string]string{"type": values.Get(fieldOf(i, "type"))}
		for _, f := range visualFields[step["type"]].fields {
			step[f.Name] = strings.ReplaceAll(values.Get(fieldOf(i, f.Name)), "\r\n", "\n")
		}
		d.steps = append(d.steps, step)
	}
	return d, nil
}

// fieldOf returns the name of a field of a step, as the API has it in its errors.
func fieldOf(step int, name string) string { return "steps[" + strconv.Itoa(step) + "]." + name }

// change does what a button says, such as "up:2". focus is the element that the visitor continues at.
func (d *visualDraft) change(do string) (focus string) {
	what, arg, _ := strings.Cut(do, ":")
	if what == "add" {
		if visualFields[arg].fields == nil && arg != "waiter" || len(d.steps) >= maxVisualSteps {
			return ""
		}
		d.steps = append(d.steps, map[string]string{"type": arg})
		return fmt.Sprintf("remove:%d", len(d.steps)-1)
	}
	i, err := strconv.Atoi(arg)
	if err != nil || i < 0 || i >= len(d.steps) {
		return ""
	}
	switch {
	case what == "up" && i > 0:
		d.steps[i-1], d.steps[i] = d.steps[i], d.steps[i-1]
		if i == 1 {
			return "down:0" // it cannot move up any more
		}
		return fmt.Sprintf("up:%d", i-1)
	case what == "down" && i+1 < len(d.steps):
		d.steps[i+1], d.steps[i] = d.steps[i], d.steps[i+1]
		if i+2 == len(d.steps) {
			return fmt.Sprintf("up:%d", i+1)
		}
		return fmt.Sprintf("down:%d", i+1)
	case what == "copy" && len(d.steps) < maxVisualSteps:
		d.steps = slices.Insert(d.steps, i+1, maps.Clone(d.steps[i]))
		return fmt.Sprintf("copy:%d", i+1)
	case what == "remove":
		d.steps = slices.Delete(d.steps, i, i+1)
		return fmt.Sprintf("remove:%d", min(i, len(d.steps)-1))
	}
	return ""
}

// body returns the steps and the environment for the API. wrong has what the API cannot know of: lines that are no
// variables, and plugins that are not JSON.
func (d visualDraft) body() (body map[string]any, wrong pages.Problems) {
	wrong = pages.Problems{}
	variables := func(field, text string) map[string]string {
		env, problem := parseEnv(text)
		if problem != "" {
			wrong[field] = problem
		}
		return env
	}
	steps := []map[string]any{}
	for i, values := range d.steps {
		kind := visualFields[values["type"]].fields
		step, build := map[string]any{"type": values["type"]}, map[string]any{}
		form := url.Values{}
		for name, value := range values {
			form.Set(name, value)
		}
		for name, value := range (pages.Form{Fields: kind}).Body(form) {
			inner, ofBuild := strings.CutPrefix(name, "build.")
			switch {
			case name == "env":
				step[name] = variables(fieldOf(i, name), values[name])
			case name == "plugins":
				if strings.TrimSpace(values[name]) == "" {
					break
				}
				if !json.Valid([]byte(values[name])) {
					wrong[fieldOf(i, name)] = "must be JSON"
					break
				}
				step[name] = json.RawMessage(values[name])
			case inner == "env" && ofBuild:
				build[inner] = variables(fieldOf(i, name), values[name])
			case ofBuild && value == "":
				build[inner] = nil
			case ofBuild:
				build[inner] = value
			default:
				step[name] = value
			}
		}
		if len(build) > 0 {
			step["build"] = build
		}
		steps = append(steps, step)
	}
	return map[string]any{"steps": steps, "env": variables("env", d.env)}, wrong
}

// envText returns variables as lines of NAME=value, sorted.
func envText(env map[string]string) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if strings.HasPrefix(value, `"`) || strings.TrimSpace(value) != value || strings.ContainsAny(value, "\r\n") {
			quoted, _ := json.Marshal(value) // a text is always valid
			value = string(quoted)
		}
		fmt.Fprintf(&lines, "%s=%s\n", name, value)
	}
	return lines.String()
}

// parseEnv is the reverse of envText.
func parseEnv(text string) (env map[string]string, problem string) {
	env, problem = parseLines(text)
	for name, value := range env {
		var unquoted string
		if strings.HasPrefix(value, `"`) && json.Unmarshal([]byte(value), &unquoted) == nil {
			env[name] = unquoted
		}
	}
	if env == nil {
		env = map[string]string{}
	}
	return env, problem
}

// A shownStep is a step in the editor.
type shownStep struct {
	Index       int
	Type, Kind  string
	Icon        string
	Command     string
	Title       string
	Fields      []pages.Field
	More        []pages.Field
	MoreOpen    bool
	First, Last bool
}

// Number returns the number of the step for people, from 1.
func (s shownStep) Number() int { return s.Index + 1 }

// Do returns the value of a button of the step.
func (s shownStep) Do(what string) string { return fmt.Sprintf("%s:%d", what, s.Index) }

// indexed is the field of the API for an element of a list.
var indexed = regexp.MustCompile(`^(steps\[\d+\]\.[a-z_.]+)\[\d+\]$`)

// shown returns the steps with their fields, and a form with all of them, whose problems are those of the API.
func (d visualDraft) shown(form pages.Form, wrong pages.Problems) ([]shownStep, pages.Form) {
	form.Problems = pages.Problems{}
	for name, problem := range wrong {
		if m := indexed.FindStringSubmatch(name); m != nil {
			name = m[1]
		}
		form.Problems[name] = problem
	}
	var steps []shownStep
	for i, values := range d.steps {
		kind := visualFields[values["type"]]
		s := shownStep{Index: i, Type: values["type"], Command: values["command"], First: i == 0, Last: i == len(d.steps)-1}
		at := slices.IndexFunc(visualKinds, func(o pages.Option) bool { return o.Value == s.Type })
		if at < 0 {
			continue
		}
		s.Kind, s.Icon = visualKinds[at].Text, [...]string{"terminal", "clock", "hand", "run"}[at]
		s.Title, _, _ = strings.Cut(strings.TrimSpace(firstFilled(values["name"], values["label"], values["command"], values["trigger_project_slug"])), "\n")
		for n, f := range kind.fields {
			f.Value, f.Checked = values[f.Name], values[f.Name] != ""
			f.Name = fieldOf(i, f.Name)
			form.Fields = append(form.Fields, f)
			if n < kind.folded {
				s.Fields = append(s.Fields, f)
				continue
			}
			s.More = append(s.More, f)
			s.MoreOpen = s.MoreOpen || f.Value != "" || form.Problems[f.Name] != ""
		}
		steps = append(steps, s)
	}
	return steps, form
}

func firstFilled(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
