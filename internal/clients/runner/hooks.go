package runner

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// repositoryHooks are the directories of a repository's hooks. Of a hook that is in several, the first counts.
var repositoryHooks = []string{".stackyard/hooks", ".buildkite/hooks"}

// A hook is a script that runs at a certain phase of each job.
type hook struct {
	owner     string // agent, repository or a plugin
	name      string // for example pre-command
	path      string
	variables map[string]string // that only this hook gets, without the prefix of service variables
}

// hooks returns the existing hooks of a name: the agent's, then the repository's, then those of plugins. Before the
// checkout there are none of the repository.
func (j *job) hooks(name string) []hook {
	var found []hook
	if dir := j.w.o.HooksPath; dir != "" {
		found = appendHook(found, hook{owner: "agent", name: name, path: filepath.Join(dir, name)})
	}
	if j.workspace != nil || j.w.o.WorkDir != "" && j.sh.Dir == j.w.o.WorkDir {
		before := len(found)
		for _, dir := range repositoryHooks {
			if len(found) == before {
				found = appendHook(found, hook{owner: "repository", name: name, path: filepath.Join(j.sh.Dir, dir, name)})
			}
		}
	}
	return append(found, j.pluginHooks(name)...)
}

// replacement returns the hook that replaces a phase: of the first plugin that has one, or of the repository, or of
// the agent.
func (j *job) replacement(name string) (hook, bool) {
	if found := j.pluginHooks(name); len(found) > 0 {
		return found[0], true
	}
	found := j.hooks(name)
	if len(found) == 0 {
		return hook{}, false
	}
	return found[len(found)-1], true
}

func appendHook(hooks []hook, h hook) []hook {
	about, err := os.Stat(h.path)
	if err != nil || !about.Mode().IsRegular() {
		return hooks
	}
	return append(hooks, h)
}

// runHooks runs all hooks of a name until one fails.
func (j *job) runHooks(name string) error {
	for _, h := range j.hooks(name) {
		if err := j.runHook(h); err != nil {
			return err
		}
	}
	return nil
}

// runHook runs a hook. Its changes to the environment apply to everything after it.
func (j *job) runHook(h hook) error {
	j.sh.Section(shell.Muted, "Running "+h.owner+" "+h.name+" hook")
	j.sh.Prompt(h.path)
	args, after, err := j.hookCommand(h)
	if err != nil {
		return err
	}
	for name, value := range h.variables {
		j.sh.Env.SetService(name, value)
	}
	defer func() {
		for name := range h.variables {
			j.sh.Env.Delete("SERVICE_" + name)
		}
	}()
	err = j.sh.RunQuietly(args...)
	j.sh.Env.SetService("LAST_HOOK_EXIT_STATUS", strconv.Itoa(statusOf(err)))
	if after != "" {
		err = errors.Join(err, j.applyHookEnvironment(after))
	}
	return err
}

// hookCommand returns the command that runs a hook. A shell script is sourced by a shell that finally writes
// its environment to the file after; the environment of other programs is not known.
func (j *job) hookCommand(h hook) (args []string, after string, err error) {
	interpreter, script, err := interpreterOf(h.path)
	if err != nil {
		return nil, "", err
	}
	if !script {
		return []string{h.path}, "", nil
	}
	after = filepath.Join(j.temp, "environment")
	// The trap covers scripts that exit. A script that sets its own EXIT trap replaces it.
	dump := "/usr/bin/env -0 >" + shell.Quote([]string{after})
	wrapper := "trap " + shell.Quote([]string{dump}) + " EXIT\n. " + shell.Quote([]string{h.path}) + "\n" +
		"stackyard_status=$?\n" + dump + "\nexit $stackyard_status\n"
	path := filepath.Join(j.temp, "hook")
	if err := os.WriteFile(path, []byte(wrapper), 0o600); err != nil {
		return nil, "", err
	}
	// The job writes to an existing file and cannot replace it with a link.
	if err := os.WriteFile(after, nil, 0o600); err != nil {
		return nil, "", err
	}
	return []string{interpreter, path}, after, errors.Join(j.sh.Chown(path), j.sh.Chown(after))
}

// shells are the interpreters of scripts that can be sourced.
var shells = []string{"bash", "sh", "dash", "ash", "ksh", "zsh"}

// interpreterOf returns the shell for a script, and whether the file is a shell script.
func interpreterOf(path string) (interpreter string, script bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	first, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	line, found := strings.CutPrefix(string(first), "#!")
	if !found {
		return defaultShell(), !strings.ContainsRune(string(first), 0), nil
	}
	for _, word := range strings.Fields(line) {
		if name := filepath.Base(word); slices.Contains(shells, name) {
			return name, true, nil
		}
	}
	return "", false, nil
}

// defaultShell returns bash if it exists.
func defaultShell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// shellVariables are variables that shells change by themselves.
var shellVariables = []string{"_", "SHLVL", "PWD", "OLDPWD"}

// applyHookEnvironment applies the final environment of a hook to the job.
func (j *job) applyHookEnvironment(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 { // the hook was killed
		return err
	}
	after := environ.Parse(strings.Split(string(text), "\x00"))
	for _, name := range shellVariables {
		delete(after, name)
		if value, ok := j.sh.Env[name]; ok {
			after[name] = value
		}
	}
	// The hook did not set this one.
	after.SetService("LAST_HOOK_EXIT_STATUS", j.sh.Env.Service("LAST_HOOK_EXIT_STATUS"))
	change := j.sh.Env.Diff(after)
	j.sh.Env.Apply(change)
	j.redactVariables(change.Set)
	if names := change.Names(); len(names) > 0 {
		j.sh.Comment("Changed: %s", strings.Join(names, ", "))
	}
	return nil
}
