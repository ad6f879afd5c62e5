package definition

import (
	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/message"
)

// Trigger starts a build of another pipeline of the organization.
type Trigger struct {
	// Pipeline is the slug of the other pipeline.
	Pipeline string
	Build    TriggerBuild
	// Async lets the step pass as soon as the build exists, without waiting for its result.
	Async       bool
	SoftFail    SoftFail
	Parallelism *int
}

// TriggerBuild describes the build that a trigger step starts. Empty texts mean the defaults: the step's label,
// HEAD, and the pipeline's default branch.
type TriggerBuild struct {
	Message  string
	Commit   string
	Branch   string
	Env      Env
	MetaData map[string]string
}

// trigger reads the attributes of a trigger step.
func (m *mapping) trigger() *Trigger {
	return &Trigger{
		Pipeline:    m.get("trigger").pipelineSlug(m),
		Build:       m.get("build").triggerBuild(),
		Async:       m.get("async").boolean(false),
		SoftFail:    m.get("soft_fail").softFail(),
		Parallelism: m.get("parallelism").integer(0, maxJobs),
	}
}

// pipelineSlug reads the slug of the pipeline to trigger. It does not check a slug that contains a variable.
func (v value) pipelineSlug(m *mapping) string {
	slug := v.text()
	switch {
	case v.set() && v.node.Kind != yaml.ScalarNode: // already recorded
	case slug == "":
		m.r.problem(m.key("trigger"), "a trigger step must name the slug of a pipeline")
	case !v.pending() && !core.ValidSlug(slug):
		m.r.problem(v.node, "trigger must be the slug of a pipeline, found %s%s", message.Quote(slug), slugSuggestion(slug))
	}
	return slug
}

func slugSuggestion(text string) string {
	if slug := core.Slugify(text); slug != "" {
		return "; did you mean " + slug + "?"
	}
	return ""
}

// triggerBuild reads the attributes of the build to start.
func (v value) triggerBuild() TriggerBuild {
	m := v.mapping("a mapping with message, commit, branch, env and meta_data")
	if m == nil {
		return TriggerBuild{}
	}
	build := TriggerBuild{
		Message:  m.get("message").text(),
		Commit:   m.get("commit").text(),
		Branch:   m.get("branch").text(),
		Env:      m.get("env").env(),
		MetaData: m.get("meta_data").metaData(),
	}
	m.warnUnknown()
	return build
}

// metaData reads a mapping of keys to scalars. Values keep the text as written.
func (v value) metaData() map[string]string {
	m := v.mapping("a mapping of keys to texts")
	if m == nil {
		return nil
	}
	data := make(map[string]string, len(m.entries))
	for _, e := range m.entries {
		if e.name == "" {
			v.r.problem(e.key, "%s has a key that is empty", v.name)
		}
		data[e.name] = v.r.value(e.value, m.qualified(message.Quote(e.name))).text()
	}
	return data
}
