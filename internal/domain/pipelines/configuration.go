package pipelines

import (
	"errors"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
)

// stepsFields are the fields of a request that say where a pipeline's steps come from.
type stepsFields struct {
	Configuration route.Opt[string]                    `json:"configuration" doc:"The steps as YAML. It replaces the whole configuration."`
	Steps         route.Later[[]definition.VisualStep] `json:"steps" doc:"The visual steps. They replace all steps; with a configuration they are ignored."`
	Env           route.Later[map[string]string]       `json:"env" doc:"The environment of a visual pipeline; ignored where the steps are YAML, which has its own."`
	TemplateUUID  route.Opt[string]                    `json:"pipeline_template_uuid" doc:"The template that the steps come from; null gives a pipeline its own copy of them."`
}

// A plan is what a request says about the steps, read and checked before any transaction begins:
// reading a large definition takes longer than others should wait.
type plan struct {
	stepsFields
	yaml   []definition.VisualResponse // of the configuration
	visual []definition.VisualResponse // of the steps
}

// plan reads what a request says about the steps. A configuration makes the steps moot, whatever they are.
func (f stepsFields) plan(problems *core.Problems) plan {
	pl := plan{stepsFields: f}
	switch {
	case f.givesTemplate() && f.givesYAML():
		problems.Add("configuration", "cannot be given beside pipeline_template_uuid, which the steps come from")
	case f.givesTemplate():
	case f.givesYAML():
		pl.yaml = readYAML(f.Configuration.Value, problems)
	case f.givesSteps():
		pl.visual = readVisual(f.Steps.Decode("steps", problems), problems)
	case f.Configuration.Set:
		problems.Add("configuration", "is required: it must not be blank")
	}
	return pl
}

func (f stepsFields) givesTemplate() bool { return f.TemplateUUID.Value != "" }

func (f stepsFields) givesYAML() bool { return strings.TrimSpace(f.Configuration.Value) != "" }

func (f stepsFields) givesSteps() bool { return f.Steps.Set && !f.Steps.Null }

// givesNothing reports whether the request says nothing about where the steps come from.
func (f stepsFields) givesNothing() bool {
	return !f.givesTemplate() && !f.givesSteps() && !f.Configuration.Set
}

// readYAML returns the steps of a configuration as responses show them, and notes each thing that is
// wrong with its line and column.
func readYAML(configuration string, problems *core.Problems) []definition.VisualResponse {
	parsed, err := definition.Parse([]byte(configuration))
	if wrong, ok := errors.AsType[definition.Errors](err); ok {
		for _, problem := range wrong {
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

// readVisual returns visual steps as responses show them, and notes what is wrong with them.
func readVisual(steps []definition.VisualStep, problems *core.Problems) []definition.VisualResponse {
	parsed, err := definition.FromVisual(steps)
	if wrong, ok := errors.AsType[*core.Error](err); ok {
		*problems = append(*problems, wrong.Fields...)
		return nil
	}
	if err != nil {
		problems.Add("steps", "%s", err)
		return nil
	}
	return parsed.Visual()
}

// carryOut gives a pipeline the steps that were planned for it; template is the one that the request
// names.
func (pl plan) carryOut(p *Pipeline, template *Template, problems *core.Problems) {
	if template != nil {
		p.TemplateID = template.ID
		p.Configuration, p.Steps, p.Env = template.Configuration, template.Steps, map[string]string{}
		return
	}
	if pl.TemplateUUID.Set && !pl.givesTemplate() {
		p.TemplateID = "" // the configuration and steps that were loaded with it become its own
	}
	switch {
	case pl.givesTemplate(): // one that cannot be used, which has been said
	case p.TemplateID != "" && (pl.givesYAML() || pl.givesSteps()):
		problems.Add("configuration", "comes from the pipeline's template; set pipeline_template_uuid to null to give the pipeline its own")
	case pl.givesYAML():
		p.Configuration, p.Steps, p.Env = pl.Configuration.Value, pl.yaml, map[string]string{}
	case p.Visual():
		pl.carryOutVisual(p, problems)
	case pl.givesSteps():
		problems.Add("steps", "cannot be set on a pipeline whose steps are YAML; send configuration instead")
	}
}

func (pl plan) carryOutVisual(p *Pipeline, problems *core.Problems) {
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
