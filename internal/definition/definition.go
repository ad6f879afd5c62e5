// Package definition turns what a person wrote into a checked list of steps: pipeline YAML through
// [Parse] when it is kept and [ParseWith] when it is built, the visual steps of the REST API through
// [FromVisual]. All give the same [Pipeline].
//
// Three ideas carry it. The model keeps every attribute as the step language means it, with aliases
// of names and shapes already settled, so that later rooms never look at YAML. Reading never stops
// at the first mistake: each [Problem] is noted with its line and column and reading goes on, so
// that a person gets all of them at once. And a definition is a stranger's input: its size, depth,
// aliases, variables and jobs are bounded while it is read, see limits.go.
//
// Three small languages stand inside the texts. Variables such as $BRANCH are filled in before
// anything else is read, see interpolate.go. Conditions are checked where a definition is read, and
// evaluated where a build is known, see [ParseCondition]. The placeholders of a matrix are filled in
// when [Step.Expand] makes jobs of a step.
//
// The functions are pure. Keys in depends_on may belong to steps that are uploaded later, but
// dependencies that go in a circle are refused, since no step could begin.
package definition

import "stackyard/internal/core"

// A Pipeline is a definition that was read and found sound.
type Pipeline struct {
	// Env is the environment of every build, in the order it was written.
	Env Env
	// Agents are the agent query rules of steps that have none of their own for a key.
	Agents []string
	// Priority is that of command steps that have none of their own.
	Priority *int
	// Attributes are passed on as written, in the shapes that JSON has: notify, and for command steps that
	// have none of their own image, checkout, cache, and secrets, which are added to the step's.
	Attributes map[string]any
	Steps      []Step
	// Warnings tell of what was accepted and has no effect, such as unknown keys.
	Warnings []Problem
}

// Kind says what a step does.
type Kind string

// The kinds of steps.
const (
	KindCommand Kind = "command"
	KindWait    Kind = "wait"
	KindBlock   Kind = "block"
	KindInput   Kind = "input"
	KindTrigger Kind = "trigger"
	KindGroup   Kind = "group"
)

// A Step is one entry of a pipeline's steps. The pointer that goes with its kind is set, the others
// are nil; block and input steps share Manual.
type Step struct {
	Kind Kind
	// Line and Column say where the step stands in the YAML; zero for a visual step.
	Line, Column int

	// Key is unique in the pipeline, or empty.
	Key   string
	Label string
	// If is a condition that [ParseCondition] takes, or empty; at most one of If and Branches is set.
	If       string
	Branches core.BranchFilter
	// DependsOn is nil when the step has no such attribute, and empty when it says that the step
	// depends on nothing, which also frees it from the barriers before it.
	DependsOn              []Dependency
	AllowDependencyFailure bool
	// Skip is for command, trigger and group steps.
	Skip Skip

	Command *Command
	Wait    *Wait
	Manual  *Manual
	Trigger *Trigger
	Group   *Group

	// Attributes are passed on as written, in the shapes that JSON has: what only agents and
	// notifications read, the matrix in the form that signatures cover, and unknown keys.
	Attributes map[string]any
}

// A Dependency names a step that must end before another begins.
type Dependency struct {
	Step string
	// AllowFailure lets the dependent run when Step failed.
	AllowFailure bool
}

// Skip keeps a step's jobs from running, for a reason that may be empty.
type Skip struct {
	On     bool
	Reason string
}

// Wait is a barrier: later steps begin when all earlier ones have succeeded.
type Wait struct {
	// ContinueOnFailure lets later steps begin after failures too.
	ContinueOnFailure bool
}

// Group gives its members a common label and the attributes of the step that holds it.
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
