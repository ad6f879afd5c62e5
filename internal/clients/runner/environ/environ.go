// Package environ holds the environment of a job. Variables that the service or the agent sets have two names,
// SERVICE_X and BUILDKITE_X, so that scripts written for either work. The package keeps both equal.
package environ

import (
	"maps"
	"slices"
	"strings"
)

// The prefixes of service variables. The first takes precedence.
const (
	prefix      = "SERVICE_"
	otherPrefix = "BUILDKITE_"
)

// Environment maps names of variables to values.
type Environment map[string]string

// Parse parses lines of the form that os.Environ returns.
func Parse(lines []string) Environment {
	e := make(Environment, len(lines))
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" {
			e[name] = value
		}
	}
	return e
}

// Lines returns the variables in the form that os/exec takes, sorted by name.
func (e Environment) Lines() []string {
	lines := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		lines = append(lines, name+"="+e[name])
	}
	return lines
}

// Service returns the value of a service variable under either name: SERVICE_COMMAND or BUILDKITE_COMMAND for
// COMMAND.
func (e Environment) Service(name string) string {
	if value, ok := e[prefix+name]; ok {
		return value
	}
	return e[otherPrefix+name]
}

// SetService sets a service variable under both names.
func (e Environment) SetService(name, value string) {
	e[prefix+name] = value
	e[otherPrefix+name] = value
}

// Set sets a variable; a service variable under both names.
func (e Environment) Set(name, value string) {
	if short, ok := Short(name); ok {
		e.SetService(short, value)
		return
	}
	e[name] = value
}

// Delete removes a variable; a service variable under both names.
func (e Environment) Delete(name string) {
	if short, ok := Short(name); ok {
		delete(e, prefix+short)
		delete(e, otherPrefix+short)
		return
	}
	delete(e, name)
}

// Short returns the name of a service variable without its prefix, and whether it is one.
func Short(name string) (string, bool) {
	if s, ok := strings.CutPrefix(name, prefix); ok {
		return s, true
	}
	return strings.CutPrefix(name, otherPrefix)
}

// A Change describes how a script changed an environment.
type Change struct {
	Set     map[string]string
	Removed []string // by name
}

// Diff returns the change from e to after.
func (e Environment) Diff(after Environment) Change {
	c := Change{Set: map[string]string{}}
	for name, value := range after {
		if old, ok := e[name]; !ok || old != value {
			c.Set[name] = value
		}
	}
	for name := range e {
		if _, ok := after[name]; !ok {
			c.Removed = append(c.Removed, name)
		}
	}
	slices.Sort(c.Removed)
	return c
}

// Apply applies a change. If a script changed both names of a service variable, SERVICE_ wins; if it removed
// one of them, both are removed.
func (e Environment) Apply(c Change) {
	for _, name := range c.Removed {
		e.Delete(name)
	}
	// In sorted order SERVICE_… comes after BUILDKITE_….
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		e.Set(name, c.Set[name])
	}
}

// Names returns the names of the changed variables.
func (c Change) Names() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(c.Set)), c.Removed)))
}
