package builds

import (
	"maps"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/plan"
)

// lookIn returns a lookup in env. Variables of the service are also found under the prefix of the published
// agent.
func lookIn(env map[string]string) plan.Lookup {
	return func(name string) (string, bool) {
		value, ok := env[name]
		if rest, other := strings.CutPrefix(name, "BUILDKITE"); !ok && other {
			value, ok = env["SERVICE"+rest]
		}
		return value, ok
	}
}

// Variables returns the variables of a build that are known before it has jobs: those of the pipeline, of the
// build and of the service, each overriding the ones before.
func (s *Reader) Variables(org *identity.Organization, p *pipelines.Pipeline, b *Build) plan.Lookup {
	env := map[string]string{}
	maps.Copy(env, b.PipelineEnv)
	maps.Copy(env, b.Env)
	maps.Copy(env, s.buildEnv(org, p, b))
	return lookIn(env)
}
