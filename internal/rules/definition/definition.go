// Package definition parses pipeline definitions into a checked list of steps: pipeline YAML with [Parse] when
// a pipeline is saved and [ParseWith] when a build is created, visual steps of the REST API with [FromVisual].
// All return the same [Pipeline].
//
//   - The model resolves aliases of names and shapes, so that other packages never look at YAML.
//   - Parsing does not stop at the first error: each [Problem] is recorded with its line and column, and
//     all of them are returned at once.
//   - A definition is untrusted input: size, depth, aliases, variables and jobs are bounded while parsing
//     (limits.go).
//
// Definitions contain three small languages. Variables like $BRANCH are interpolated before anything else is
// parsed (interpolate.go). Conditions are checked when a definition is parsed and evaluated when a build is
// created ([condition.Parse]). Matrix placeholders are filled in when [Step.Expand] converts a step into jobs.
//
// All functions are pure. Keys in depends_on may belong to steps that are uploaded later; dependency cycles are
// refused.
package definition

import "stackyard/internal/platform/core"

// A Pipeline is a valid definition.
type Pipeline struct {
	// Env is the environment of every build, in source order.
	Env Env
	// Agents are default agent query rules, applied per key.
	Agents []string
	// Priority is the default priority of command steps.
	Priority *int
	// Attributes are passed on as JSON values: notify, and the defaults image, checkout and cache of command
	// steps; secrets are added to those of each step.
	Attributes map[string]any
	Steps      []Step
	// Warnings are about input that was accepted but has no effect, for example unknown keys.
	Warnings []Problem
}

// Kind is the kind of a step.
type Kind string

// Kinds of steps.
const (
	KindCommand Kind = "command"
	KindWait    Kind = "wait"
	KindBlock   Kind = "block"
	KindInput   Kind = "input"
	KindTrigger Kind = "trigger"
	KindGroup   Kind = "group"
)

// A Step is one entry of a pipeline's steps. Only the pointer for its kind is set; block and input steps share
// Manual.
type Step struct {
	Kind Kind
	// Line and Column are the position in the YAML; zero for a visual step.
	Line, Column int

	// Key is unique in the pipeline, or empty.
	Key   string
	Label string
	// If is a condition that [condition.Parse] takes, or empty; at most one of If and Branches is set.
	If       string
	Branches core.BranchFilter
	// DependsOn is nil when the attribute is missing. Empty means that the step depends on nothing, not even on
	// wait steps before it.
	DependsOn              []Dependency
	AllowDependencyFailure bool
	// Skip applies to command, trigger and group steps.
	Skip Skip

	Command *Command
	Wait    *Wait
	Manual  *Manual
	Trigger *Trigger
	Group   *Group

	// Attributes are passed on as JSON values: attributes only agents and notifications read, the matrix in the
	// form that signatures cover, and unknown keys.
	Attributes map[string]any
}

// A Dependency names a step that must end before another starts.
type Dependency struct {
	Step string
	// AllowFailure lets the dependent run when Step failed.
	AllowFailure bool
}

// Skip keeps a step's jobs from running. The reason can be empty.
type Skip struct {
	On     bool
	Reason string
}

// Wait is a barrier: later steps start when all earlier ones have succeeded.
type Wait struct {
	// ContinueOnFailure lets later steps start after failures too.
	ContinueOnFailure bool
}

// Group gives its members a common label and attributes.
type Group struct {
	Steps []Step
}

// Env is a list of environment variables. Order matters where one refers to another.
type Env []Variable

// A Variable is an environment variable.
type Variable struct{ Name, Value string }

// Map returns the variables by name; it is never nil.
func (e Env) Map() map[string]string {
	m := make(map[string]string, len(e))
	for _, v := range e {
		m[v.Name] = v.Value
	}
	return m
}
