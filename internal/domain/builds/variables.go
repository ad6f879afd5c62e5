package builds

import (
	"maps"
	"regexp"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
)

// lookUp returns a variable and whether it is set.
type lookUp = func(name string) (string, bool)

// lookIn returns variables by name. Those of the service go by the prefix that the published agent has
// for them, too.
func lookIn(env map[string]string) lookUp {
	return func(name string) (string, bool) {
		value, ok := env[name]
		if rest, other := strings.CutPrefix(name, "BUILDKITE"); !ok && other {
			value, ok = env["SERVICE"+rest]
		}
		return value, ok
	}
}

// variables returns the variables that are known of a build before it has jobs: the pipeline's, the
// build's and those of the service, each overriding the ones before.
func (s *Service) variables(org *identity.Organization, p *pipelines.Pipeline, b *Build) lookUp {
	env := map[string]string{}
	maps.Copy(env, b.PipelineEnv)
	maps.Copy(env, b.Env)
	maps.Copy(env, s.buildEnv(org, p, b))
	return lookIn(env)
}

// parse reads the YAML of a pipeline for a build with some variables.
//
// Variables in a definition follow the rules of the agent, by which one that is not set is nothing. A
// command is another matter: what its variables mean at last is for the shell to say, and it has more of
// them than are known here, such as those of its step and its own. So in commands only those that are
// known are filled in, and the others stay.
func parse(configuration string, env lookUp) (*definition.Pipeline, error) {
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

// fillCommands gives the command steps among filled the commands that were written, with what is known
// filled in.
func fillCommands(filled, written []definition.Step, env lookUp) {
	if len(filled) != len(written) {
		return
	}
	for i := range filled {
		switch to, from := &filled[i], &written[i]; {
		case to.Command != nil && from.Command != nil:
			// The step's own variables override all others, and only the shell has them.
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

// reference matches a variable without an operator, and the two ways to write a dollar sign.
var reference = regexp.MustCompile(`\$\$|\\\$|\$([A-Za-z][A-Za-z0-9_]*)|\$\{([A-Za-z][A-Za-z0-9_]*)\}`)

// fillKnown fills in the variables of a command that are set, and leaves the others to the shell.
func fillKnown(command string, env lookUp) string {
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
