package builds

import (
	"maps"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/plan"
)

// lookIn returns variables by name. Those of the service go by the prefix that the published agent has
// for them, too.
func lookIn(env map[string]string) plan.Lookup {
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
func (s *Service) variables(org *identity.Organization, p *pipelines.Pipeline, b *Build) plan.Lookup {
	env := map[string]string{}
	maps.Copy(env, b.PipelineEnv)
	maps.Copy(env, b.Env)
	maps.Copy(env, s.buildEnv(org, p, b))
	return lookIn(env)
}
