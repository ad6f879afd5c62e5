package runner

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/inside"
)

// setUp prepares the job's directory and environment.
func (j *job) setUp() error {
	j.sh.Dir = filepath.Join(j.temp, "work")
	if err := os.Mkdir(j.sh.Dir, 0o777); err != nil {
		return err
	}
	if j.sh.User != nil { // the agent keeps the directory, so that the job cannot replace files in it
		if err := errors.Join(os.Chmod(j.temp, 0o711), j.sh.Chown(j.sh.Dir)); err != nil {
			return err
		}
	}
	bin, err := j.link("bin", "stackyard")
	if err != nil {
		return err
	}
	fallback, err := j.link("stand-in", "buildkite-agent")
	if err != nil {
		return err
	}
	j.sh.Env = j.environment(environ.Parse(os.Environ()), bin)
	j.repository = j.sh.Env.Service("REPO")
	// The published agent, if installed, comes before our replacement.
	j.sh.Env["PATH"] = strings.Join([]string{bin, j.sh.Env["PATH"], fallback}, string(os.PathListSeparator))
	j.redactVariables(j.sh.Env)
	j.redactor.Add(j.w.o.Token)
	j.redactor.Add(checkout.Credentials(j.sh.Env.Service("REPO"))...) // git prints URLs
	return nil
}

// link creates a directory with a link to this program, for commands in the job.
func (j *job) link(folder, name string) (string, error) {
	dir := filepath.Join(j.temp, folder)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return "", err
	}
	return dir, os.Symlink(j.w.o.Executable, filepath.Join(dir, name))
}

// hiddenSettings are settings of the agent that jobs must not see: a job could register agents with them, and
// an agent that a job starts would use them.
var hiddenSettings = []string{"AGENT_TOKEN", "AGENT_TOKEN_FILE", "AGENT_ACQUIRE_JOB", "AGENT_VNC_PASSWORD", "AGENT_VNC_PASSWORD_FILE",
	"AGENT_SIGNING_JWKS_FILE", "AGENT_SIGNING_JWKS_KEY_ID"}

// environment returns the initial variables of the job: the agent's own, overridden by those of the job,
// overridden by those that only the agent knows.
func (j *job) environment(own environ.Environment, bin string) environ.Environment {
	env := own
	for _, name := range slices.Sorted(maps.Keys(j.spec.Env)) {
		env.Set(name, j.spec.Env[name])
	}
	for _, name := range hiddenSettings {
		env.Delete("SERVICE_" + name)
	}
	o, session := j.w.o, j.w.session
	for name, value := range map[string]string{
		"JOB_ID":              j.spec.ID,
		"AGENT_ACCESS_TOKEN":  j.api.Token(),
		"AGENT_ENDPOINT":      j.api.Endpoint(),
		"AGENT_ID":            session.ID,
		"AGENT_NAME":          session.Name,
		"AGENT_PID":           strconv.Itoa(os.Getpid()),
		"BIN_PATH":            bin,
		"BUILD_PATH":          o.BuildPath,
		"HOOKS_PATH":          o.HooksPath,
		"SHELL":               strings.Join(o.Shell, " "),
		"COMMAND_EVAL":        "true",
		"LOCAL_HOOKS_ENABLED": "true",
		"PLUGINS_ENABLED":     strconv.FormatBool(!o.NoPlugins),
		inside.SocketVariable: filepath.Join(j.temp, "agent.sock"),
		inside.SignsVariable:  strconv.FormatBool(o.SigningKey != nil),
	} {
		env.SetService(name, value)
	}
	if user := o.JobUser; user != nil {
		env["HOME"], env["USER"], env["LOGNAME"] = user.Home, user.Name, user.Name
	}
	if _, given := j.spec.Env["TMPDIR"]; !given && o.CommandSocket == "" { // the other container has its own
		env["TMPDIR"] = filepath.Join(j.temp, "tmp")
	}
	env[runMarker] = filepath.Base(j.temp)
	if env["TERM"] == "" {
		env["TERM"] = "xterm-256color"
	}
	delete(env, "PWD") // the agent's
	return env
}

// secretNames are patterns for the names of variables with secret values.
var secretNames = []string{"*_PASSWORD", "*_SECRET", "*_TOKEN", "*_PRIVATE_KEY", "*_ACCESS_KEY", "*_SECRET_KEY", "*_CONNECTION_STRING"}

// redactVariables redacts the values of variables whose names match secretNames.
func (j *job) redactVariables(env map[string]string) {
	var values []string
	for name, value := range env {
		if slices.ContainsFunc(secretNames, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			values = append(values, value)
		}
	}
	j.redactor.Add(values...)
}

// addSecrets adds the secrets of the step to the job's environment.
func (j *job) addSecrets() error {
	for _, secret := range j.spec.Step.Secrets {
		if protected(secret.Variable) {
			return fmt.Errorf("the secret %s cannot be put into %s, which the agent sets itself", secret.Key, secret.Variable)
		}
		value, err := j.api.Secret(j.ctx, j.spec.ID, secret.Key)
		if err != nil {
			return fmt.Errorf("get the secret %s: %w", secret.Key, err)
		}
		if short := j.redactor.Add(value); short > 0 {
			j.sh.Warning("The secret %s is too short to be redacted in the log", secret.Key)
		}
		j.sh.Env.Set(secret.Variable, value)
	}
	return nil
}

// protectedNames are variables that secrets must not set, because they control what runs.
var protectedNames = []string{
	"AGENT_ACCESS_TOKEN", "AGENT_DEBUG", "AGENT_ENDPOINT", "AGENT_JOB_TIMEOUT_FILE", "AGENT_PID",
	"ARTIFACT_PATHS", "ARTIFACT_UPLOAD_DESTINATION",
	"BIN_PATH", "BUILD_PATH", "CONFIG_PATH", "HOOKS_PATH", "PLUGINS_PATH",
	"CHECKOUT_OVERRIDE_MODE", "COMMAND_EVAL", "CONTAINER_COUNT",
	"GIT_CHECKOUT_FLAGS", "GIT_CHECKOUT_TIMEOUT", "GIT_CLEAN_FLAGS", "GIT_CLONE_FLAGS", "GIT_CLONE_MIRROR_FLAGS",
	"GIT_COMMIT_VERIFICATION", "GIT_FETCH_FLAGS", "GIT_MIRRORS_LOCK_TIMEOUT", "GIT_MIRRORS_PATH",
	"GIT_MIRRORS_SKIP_UPDATE", "GIT_MIRROR_CHECKOUT_MODE", "GIT_REMOTE_MIRROR_URL", "GIT_SKIP_FETCH_EXISTING_COMMITS",
	"GIT_SPARSE_CHECKOUT_MODE", "GIT_SPARSE_CHECKOUT_PATHS", "GIT_SUBMODULES", "GIT_SUBMODULE_CLONE_CONFIG",
	"HOOKS_SHELL", "SHELL", "JOB_CONTEXT_DIR", "KUBERNETES_EXEC", "LOCAL_HOOKS_ENABLED",
	"PLUGINS_ENABLED", "PLUGINS_ALWAYS_CLONE_FRESH", "REFSPEC", "REPO", "SKIP_CHECKOUT", "SSH_KEYSCAN",
}

func protected(variable string) bool {
	name, ok := environ.Short(variable)
	return ok && slices.Contains(protectedNames, name)
}

// A refusal means that this agent does not run a job.
type refusal struct {
	reason  string
	message string
}

func (r *refusal) Error() string { return r.message }

// check returns a refusal if this agent cannot run the job.
func (j *job) check() error {
	if plugins := strings.TrimSpace(j.sh.Env.Service("PLUGINS")); j.w.o.NoPlugins && plugins != "" && plugins != "[]" && plugins != "null" {
		return &refusal{agentRefused, "The step has plugins, which this agent does not run (--no-plugins). Replace them by hooks and commands, or use another queue."}
	}
	if err := j.verify(); err != nil {
		return err
	}
	return j.checkImage()
}

var errNoCommand = errors.New("the step has no command, and there is no command hook")
