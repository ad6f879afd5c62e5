package plan

import (
	"regexp"
	"strings"

	"stackyard/internal/rules/definition"
)

// A Lookup returns a variable and whether it is set.
type Lookup = func(name string) (string, bool)

// Parse parses the YAML of a pipeline and interpolates variables.
//
// Variables in a definition follow the rules of the agent: an unset variable is empty. In commands, only variables
// that env or the definition sets are interpolated. The shell expands the others, because it also has the variables of
// the step and its own.
func Parse(configuration string, env Lookup) (*definition.Pipeline, error) {
	filled, err := definition.ParseWith([]byte(configuration), env)
	if err != nil || !strings.Contains(configuration, "$") {
		return filled, err
	}
	written, err := definition.Parse([]byte(configuration))
	if err != nil {
		return nil, err
	}
	own := filled.Env.Map()
	fillCommands(filled.Steps, written.Steps, func(name string) (string, bool) {
		if value, ok := env(name); ok {
			return value, ok
		}
		value, ok := own[name]
		return value, ok
	})
	return filled, nil
}

// fillCommands replaces the commands of filled by those of written, with the known variables interpolated.
func fillCommands(filled, written []definition.Step, env Lookup) {
	if len(filled) != len(written) {
		return
	}
	for i := range filled {
		switch to, from := &filled[i], &written[i]; {
		case to.Command != nil && from.Command != nil:
			// The step's own variables override all others, so the shell expands them.
			steps := to.Command.Env.Map()
			to.Command.Script = fillKnown(from.Command.Script, func(name string) (string, bool) {
				if _, ok := steps[name]; ok {
					return "", false
				}
				return env(name)
			})
		case to.Group != nil && from.Group != nil:
			fillCommands(to.Group.Steps, from.Group.Steps, env)
		}
	}
}

// reference matches a variable without an operator, and the two escapes of a dollar sign.
var reference = regexp.MustCompile(`\$\$|\\\$|\$([A-Za-z][A-Za-z0-9_]*)|\$\{([A-Za-z][A-Za-z0-9_]*)\}`)

// fillKnown interpolates the variables of a command that are set.
func fillKnown(command string, env Lookup) string {
	return reference.ReplaceAllStringFunc(command, func(match string) string {
		if match == "$$" || match == `\$` {
			return "$"
		}
		if value, ok := env(strings.Trim(match, "${}")); ok {
			return value
		}
		return match
	})
}
