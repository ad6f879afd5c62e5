package pipelines

import (
	"errors"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
)

// stepsFields are the request fields that define a pipeline's steps.
type stepsFields struct {
	Configuration route.Opt[string]                    `json:"configuration" doc:"The steps as YAML. It replaces the whole configuration."`
	Steps         route.Later[[]definition.VisualStep] `json:"steps" doc:"The visual steps. They replace all steps; with a configuration they are ignored."`
	Env           route.Later[map[string]string]       `json:"env" doc:"The environment of a visual pipeline; ignored where the steps are YAML, which has its own."`
	TemplateUUID  route.Opt[string]                    `json:"pipeline_template_uuid" doc:"The template that the steps come from; null gives a pipeline its own copy of them."`
}

// A stepsPlan is the parsed and validated part of a request that defines the steps. It is made before the
// transaction, because parsing a large definition would block other writers.
type stepsPlan struct {
	stepsFields
	yaml   []definition.VisualResponse // parsed from the configuration
	visual []definition.VisualResponse // parsed from the steps
}

// plan parses the steps of a request. With a configuration, steps are ignored.
func (f stepsFields) plan(problems *core.Problems) stepsPlan {
	pl := stepsPlan{stepsFields: f}
	switch {
	case f.givesTemplate() && f.givesYAML():
		problems.Add("configuration", "cannot be given beside pipeline_template_uuid, which the steps come from")
	case f.givesTemplate():
	case f.givesYAML():
		pl.yaml = parseYAML(f.Configuration.Value, problems)
	case f.givesSteps():
		pl.visual = parseVisual(f.Steps.Decode("steps", problems), problems)
	case f.Configuration.Set:
		problems.Add("configuration", "is required: it must not be blank")
	}
	return pl
}

func (f stepsFields) givesTemplate() bool { return f.TemplateUUID.Value != "" }

func (f stepsFields) givesYAML() bool { return strings.TrimSpace(f.Configuration.Value) != "" }

func (f stepsFields) givesSteps() bool { return f.Steps.Set && !f.Steps.Null }

// givesNothing reports whether the request does not define the steps.
func (f stepsFields) givesNothing() bool {
	return !f.givesTemplate() && !f.givesSteps() && !f.Configuration.Set
}

// parseYAML returns the steps of a configuration in the form of responses. It reports each error with its line
// and column.
func parseYAML(configuration string, problems *core.Problems) []definition.VisualResponse {
	parsed, err := definition.Parse([]byte(configuration))
	if invalid, ok := errors.AsType[definition.Errors](err); ok {
		for _, problem := range invalid {
			problems.Add("configuration", "%s", problem)
		}
		return nil
	}
	if err != nil {
		problems.Add("configuration", "%s", err)
		return nil
	}
	return parsed.Visual()
}

// parseVisual returns visual steps in the form of responses and reports errors.
func parseVisual(steps []definition.VisualStep, problems *core.Problems) []definition.VisualResponse {
	parsed, err := definition.FromVisual(steps)
	if invalid, ok := errors.AsType[*core.Error](err); ok {
		*problems = append(*problems, invalid.Fields...)
		return nil
	}
	if err != nil {
		problems.Add("steps", "%s", err)
		return nil
	}
	return parsed.Visual()
}

// applyTo sets the steps of a pipeline. template is the one that the request names.
func (pl stepsPlan) applyTo(p *Pipeline, template *Template, problems *core.Problems) {
	if template != nil {
		p.TemplateID = template.ID
		p.Configuration, p.Steps, p.Env = template.Configuration, template.Steps, map[string]string{}
		return
	}
	if pl.TemplateUUID.Set && !pl.givesTemplate() {
		p.TemplateID = "" // the pipeline keeps the template's configuration and steps as its own
	}
	switch {
	case pl.givesTemplate(): // an unusable template, which was reported before
	case p.TemplateID != "" && (pl.givesYAML() || pl.givesSteps()):
		problems.Add("configuration", "comes from the pipeline's template; set pipeline_template_uuid to null to give the pipeline its own")
	case pl.givesYAML():
		p.Configuration, p.Steps, p.Env = pl.Configuration.Value, pl.yaml, map[string]string{}
	case p.Visual():
		pl.applyVisual(p, problems)
	case pl.givesSteps():
		problems.Add("steps", "cannot be set on a pipeline whose steps are YAML; send configuration instead")
	}
}

func (pl stepsPlan) applyVisual(p *Pipeline, problems *core.Problems) {
	if pl.givesSteps() {
		p.Steps = pl.visual
	}
	if pl.Env.Set {
		p.Env = pl.Env.Decode("env", problems)
	}
	if p.Env == nil {
		p.Env = map[string]string{}
	}
}
