// Package environ is the environment of a job. The variables that the service and the agent set have
// two names, SERVICE_X and BUILDKITE_X, so that scripts written for either work; the two are kept the
// same, whoever sets one.
package environ

import (
	"maps"
	"slices"
	"strings"
)

// The two beginnings of a service variable's name. The first is the one that counts.
const (
	prefix      = "SERVICE_"
	otherPrefix = "BUILDKITE_"
)

// Environment holds variables by their names.
type Environment map[string]string

// Parse makes an environment of lines such as os.Environ returns.
func Parse(lines []string) Environment {
	e := make(Environment, len(lines))
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" {
			e[name] = value
		}
	}
	return e
}

// Lines returns the variables as processes are given them, by name.
func (e Environment) Lines() []string {
	lines := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		lines = append(lines, name+"="+e[name])
	}
	return lines
}

// Service returns the value of a service variable under whichever of its names it is set: that of
// SERVICE_COMMAND for COMMAND.
func (e Environment) Service(name string) string {
	if value, ok := e[prefix+name]; ok {
		return value
	}
	return e[otherPrefix+name]
}

// SetService sets a service variable under both of its names.
func (e Environment) SetService(name, value string) {
	e[prefix+name] = value
	e[otherPrefix+name] = value
}

// Set sets a variable, and if it is one of the service, also under its other name.
func (e Environment) Set(name, value string) {
	if short, ok := Short(name); ok {
		e.SetService(short, value)
		return
	}
	e[name] = value
}

// Delete removes a variable under both of its names.
func (e Environment) Delete(name string) {
	if short, ok := Short(name); ok {
		delete(e, prefix+short)
		delete(e, otherPrefix+short)
		return
	}
	delete(e, name)
}

// Short returns the name of a service variable without its beginning, and whether it is one.
func Short(name string) (string, bool) {
	if s, ok := strings.CutPrefix(name, prefix); ok {
		return s, true
	}
	return strings.CutPrefix(name, otherPrefix)
}

// A Change is what became of an environment in the hands of a script.
type Change struct {
	Set     map[string]string
	Removed []string // by name
}

// Diff returns what has changed from e to after.
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

// Apply makes a change. Where a script has changed both names of a service variable, the one that
// begins with SERVICE_ counts; one that it removed under either name is gone.
func (e Environment) Apply(c Change) {
	for _, name := range c.Removed {
		e.Delete(name)
	}
	// By name, so that SERVICE_… comes after BUILDKITE_….
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		e.Set(name, c.Set[name])
	}
}

// Names returns the names of what has changed.
func (c Change) Names() []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(c.Set)), c.Removed)))
}
