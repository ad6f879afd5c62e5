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

// repositoryHooks is where a repository has its hooks.
const repositoryHooks = ".stackyard/hooks"

// A hook is a script that somebody wants to be run at a certain time of each job.
type hook struct {
	owner string // agent or repository
	name  string // such as pre-command
	path  string
}

// hooks returns those of a name that there are: the agent's first, then the repository's. Before there is
// a checkout only the agent has any.
func (j *job) hooks(name string) []hook {
	var found []hook
	if dir := j.w.o.HooksPath; dir != "" {
		found = appendHook(found, hook{"agent", name, filepath.Join(dir, name)})
	}
	if j.place != nil {
		found = appendHook(found, hook{"repository", name, filepath.Join(j.sh.Dir, repositoryHooks, name)})
	}
	return found
}

func appendHook(hooks []hook, h hook) []hook {
	about, err := os.Stat(h.path)
	if err != nil || !about.Mode().IsRegular() {
		return hooks
	}
	return append(hooks, h)
}

// runHooks runs all hooks of a name, until one fails.
func (j *job) runHooks(name string) error {
	for _, h := range j.hooks(name) {
		if err := j.runHook(h); err != nil {
			return err
		}
	}
	return nil
}

// runHook runs a hook. What it changes of its environment is changed for all that follows.
func (j *job) runHook(h hook) error {
	j.sh.Section(shell.Muted, "Running "+h.owner+" "+h.name+" hook")
	j.sh.Prompt(h.path)
	args, after, err := j.hookCommand(h)
	if err != nil {
		return err
	}
	err = j.sh.RunQuietly(args...)
	j.sh.Env.SetService("LAST_HOOK_EXIT_STATUS", strconv.Itoa(statusOf(err)))
	if after != "" {
		err = errors.Join(err, j.takeEnvironment(after))
	}
	return err
}

// hookCommand returns what runs a hook. A script of the shell is read by one that in the end writes its
// environment to a file; of anything else the environment cannot be known.
func (j *job) hookCommand(h hook) (args []string, after string, err error) {
	interpreter, script, err := interpreterOf(h.path)
	if err != nil {
		return nil, "", err
	}
	if !script {
		return []string{h.path}, "", nil
	}
	after = filepath.Join(j.temp, "environment")
	// The trap is for scripts that exit; it is gone when they set one themselves.
	dump := "/usr/bin/env -0 >" + shell.Quote([]string{after})
	wrapper := "trap " + shell.Quote([]string{dump}) + " EXIT\n. " + shell.Quote([]string{h.path}) + "\n" +
		"stackyard_status=$?\n" + dump + "\nexit $stackyard_status\n"
	path := filepath.Join(j.temp, "hook")
	if err := os.WriteFile(path, []byte(wrapper), 0o600); err != nil {
		return nil, "", err
	}
	// The job writes into a file that is there, and cannot put a link in its place.
	if err := os.WriteFile(after, nil, 0o600); err != nil {
		return nil, "", err
	}
	return []string{interpreter, path}, after, errors.Join(j.sh.Give(path), j.sh.Give(after))
}

// shells are the interpreters of scripts that can be read by a shell that goes on afterwards.
var shells = []string{"bash", "sh", "dash", "ash", "ksh", "zsh"}

// interpreterOf returns the shell for a script, and whether the file is a script for one.
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

// defaultShell is bash where there is one.
func defaultShell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// theShells are variables that shells change for themselves.
var theShells = []string{"_", "SHLVL", "PWD", "OLDPWD"}

// takeEnvironment reads what a hook's environment was in the end, and makes it that of the job.
func (j *job) takeEnvironment(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 { // the hook was killed
		return err
	}
	after := environ.Parse(strings.Split(string(text), "\x00"))
	for _, name := range theShells {
		delete(after, name)
		if value, ok := j.sh.Env[name]; ok {
			after[name] = value
		}
	}
	// Not the hook's doing.
	after.SetService("LAST_HOOK_EXIT_STATUS", j.sh.Env.Service("LAST_HOOK_EXIT_STATUS"))
	change := j.sh.Env.Diff(after)
	j.sh.Env.Apply(change)
	j.redactVariables(change.Set)
	if names := change.Names(); len(names) > 0 {
		j.sh.Comment("Changed: %s", strings.Join(names, ", "))
	}
	return nil
}
