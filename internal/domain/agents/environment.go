package agents

import (
	"maps"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
)

// The prefixes of the variables that the server sets: its own, and the one that published agents, plugins and
// scripts read.
const (
	ownPrefix        = "SERVICE"
	compatiblePrefix = "BUILDKITE"
)

// maxMessage is the maximum length of the commit message in a job's environment, in bytes. Operating systems
// limit the size of environments.
const maxMessage = 64 << 10

// noRepository is the repository of a pipeline without one: agents require a value.
const noRepository = "none"

// jobEnvironment completes the environment of a job. a is the agent that runs the job, or nil for a stack,
// which has no agent yet.
func jobEnvironment(env map[string]string, a *Agent, clusterName string) map[string]string {
	env = maps.Clone(env)
	set := func(name, value string) { env[ownPrefix+"_"+name] = value }
	if a != nil {
		set("AGENT_ID", a.ID)
		set("AGENT_NAME", a.Name)
		for _, tag := range a.Tags {
			name, value, _ := strings.Cut(tag, "=")
			set("AGENT_META_DATA_"+builds.VariableName(name), value)
		}
	}
	set("CLUSTER_NAME", clusterName)
	set("MESSAGE", core.CutBytes(env[ownPrefix+"_MESSAGE"], maxMessage))
	if env[ownPrefix+"_REPO"] == "" {
		set("REPO", noRepository)
		set("SKIP_CHECKOUT", "true")
	}
	for name, value := range maps.Clone(env) {
		if rest, ok := strings.CutPrefix(name, ownPrefix); ok && (rest == "" || rest[0] == '_') {
			env[compatiblePrefix+rest] = value
		}
	}
	maps.DeleteFunc(env, func(name, _ string) bool { return setByAgent(name) })
	return env
}

// setByAgent reports whether agents set a variable themselves. They log a warning when the server sends such a
// variable.
func setByAgent(name string) bool {
	rest, ok := strings.CutPrefix(name, compatiblePrefix+"_")
	if !ok {
		if rest, ok = strings.CutPrefix(name, ownPrefix+"_"); !ok {
			return false
		}
	}
	if agentVariables[rest] {
		return true
	}
	for _, prefix := range agentVariablePrefixes {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	return false
}

var agentVariablePrefixes = []string{"CANCEL_", "GIT_MIRROR_", "GIT_MIRRORS_", "REQUEST_HEADER_"}

var agentVariables = nameSet(`
	AGENT_ACCESS_TOKEN AGENT_ENDPOINT AGENT_PID AGENT_DEBUG AGENT_DEBUG_HTTP AGENT_EXPERIMENT AGENT_JOB_TIMEOUT_FILE
	AGENT_DISABLE_WARNINGS_FOR AGENT_TOKEN
	BIN_PATH BUILD_PATH CONFIG_PATH HOOKS_PATH PLUGINS_PATH SOCKETS_PATH ADDITIONAL_HOOKS_PATHS
	ENV_FILE ENV_JSON_FILE
	COMMAND_EVAL PLUGINS_ENABLED LOCAL_HOOKS_ENABLED SSH_KEYSCAN STRICT_SINGLE_HOOKS SHELL HOOKS_SHELL REDACTED_VARS
	NO_HTTP2 PLUGIN_VALIDATION CHECKOUT_ATTEMPTS CHECKOUT_OVERRIDE_MODE JOB_LOGS_OTLP
	GIT_CHECKOUT_FLAGS GIT_CLONE_FLAGS GIT_FETCH_FLAGS GIT_CLEAN_FLAGS GIT_CLONE_MIRROR_FLAGS
	GIT_COMMIT_VERIFICATION GIT_SUBMODULE_CLONE_CONFIG SECRETS_CONFIG`)

func nameSet(list string) map[string]bool {
	set := make(map[string]bool)
	for name := range strings.FieldsSeq(list) {
		set[name] = true
	}
	return set
}
