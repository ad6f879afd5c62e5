// Package checkout checks out a commit of a repository with git.
//
// The previous job of the directory could write anything into it, including .git: hooks, configuration that
// runs programs, files that git ignores. So every checkout starts with an empty directory and a new .git. It
// reuses only the objects of the previous one (reuse.go), to save network traffic.
package checkout

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// A Checkout describes what to check out, and where.
type Checkout struct {
	Dir         string
	Repository  string // anything that git clone accepts
	Mirror      string // a faster source for full commit hashes; may be behind
	Commit      string // "HEAD": the newest of the branch or tag
	Branch      string
	Tag         string
	Refspec     string // fetched instead of branch, tag or commit; separated by spaces
	PullRequest PullRequest
	Clean       bool // reuse nothing of the previous checkout
	Submodules  bool
	Mirrors     string   // directory of the machine's mirrors; "": it has none
	LFS         bool     // download files of Git LFS
	Sparse      []string // check out these folders only; empty: all
	// SparsePatterns makes Sparse patterns like those of .gitignore.
	SparsePatterns bool
	Depth          int    // of the history; 0: all of it
	Filter         string // leaves objects out until they are needed, such as blob:none; "": none
	// CredentialHelper is a command from which git gets credentials for the repository, after the configured
	// helpers. The repository's URL is its last argument but one.
	CredentialHelper string

	// Timeout limits the whole checkout; 0 means none.
	Timeout time.Duration
	// Pause is the delay before another attempt.
	Pause time.Duration
}

// attempts is how often a checkout is tried, since networks fail.
const attempts = 3

// stopGrace is how long git may take to stop after the timeout.
const stopGrace = 5 * time.Second

// Of returns the checkout that a job's variables describe.
func Of(env environ.Environment) Checkout {
	return Checkout{
		Repository: env.Service("REPO"),
		Mirror:     env.Service("GIT_REMOTE_MIRROR_URL"),
		Commit:     env.Service("COMMIT"),
		Branch:     env.Service("BRANCH"),
		Tag:        env.Service("TAG"),
		Refspec:    env.Service("REFSPEC"),
		PullRequest: PullRequest{
			Number:   env.Service("PULL_REQUEST"),
			Provider: env.Service("PIPELINE_PROVIDER"),
			Merge:    env.Service("PULL_REQUEST_USING_MERGE_REFSPEC") == "true",
		},
		Clean:      env.Service("CLEAN_CHECKOUT") == "true",
		Submodules: env.Service("GIT_SUBMODULES") != "false",
		LFS:        env.Service("GIT_LFS_ENABLED") == "true",
		Sparse: strings.FieldsFunc(env.Service("GIT_SPARSE_CHECKOUT_PATHS"), func(r rune) bool {
			return r == ',' || r == '\n'
		}),
		SparsePatterns: env.Service("GIT_SPARSE_CHECKOUT_MODE") == "no-cone",
		Depth:          positive(env.Service("GIT_DEPTH")),
		Filter:         env.Service("GIT_FILTER"),
		Pause:          2 * time.Second,
	}
}

// positive returns a positive number, or 0.
func positive(text string) int {
	n, _ := strconv.Atoi(text)
	return max(n, 0)
}

// Run checks out and makes the checkout the shell's directory.
func (c Checkout) Run(sh *shell.Shell) error {
	if strings.HasPrefix(c.Commit, "-") {
		return errors.New("a commit cannot start with a dash: " + c.Commit)
	}
	for _, url := range []string{c.Repository, c.Mirror} {
		if err := CheckTransport(url); err != nil {
			return err
		}
	}
	if err := c.checkParts(); err != nil {
		return err
	}
	quiet(sh.Env)
	if c.LFS { // files are downloaded together, after the checkout
		defer sh.Env.Apply(environ.Change{Removed: []string{"GIT_LFS_SKIP_SMUDGE"}})
		sh.Env["GIT_LFS_SKIP_SMUDGE"] = "1"
	}
	c.addCredentialHelper(sh.Env)
	if c.Timeout == 0 {
		return c.run(sh)
	}
	stop := sh.Stop
	limited, expired, release := stop.Within(c.Timeout, stopGrace)
	sh.Stop = limited
	err := c.run(sh)
	sh.Stop = stop
	release()
	if err != nil && expired() {
		return fmt.Errorf("git did not finish within %s; the agent's --git-timeout sets the limit", c.Timeout)
	}
	return err
}

func (c Checkout) run(sh *shell.Shell) error {
	clean := c.Clean
	for try := 1; ; try++ {
		err := c.try(sh, clean)
		if err == nil || errors.Is(err, shell.ErrStopped) || try == attempts {
			return err
		}
		sh.Warning("Checkout failed, attempt %d of %d: %v", try, attempts, err)
		select {
		case <-time.After(c.Pause):
		case <-sh.Stop.Term:
			return shell.ErrStopped
		}
		// The directory may be the problem.
		clean = true
	}
}

// Quiet disables the interactive prompts of git and ssh, and returns the change that undoes it.
func Quiet(env environ.Environment) environ.Change {
	before := maps.Clone(env)
	quiet(env)
	return env.Diff(before)
}

// quiet disables the interactive prompts of git and ssh.
func quiet(env environ.Environment) {
	env["GIT_TERMINAL_PROMPT"] = "0"
	if env["GIT_SSH_COMMAND"] == "" && env["GIT_SSH"] == "" {
		env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new"
	}
}

// addCredentialHelper configures the helper for this repository only.
func (c Checkout) addCredentialHelper(env environ.Environment) {
	if c.CredentialHelper == "" || !strings.HasPrefix(c.Repository, "https://") {
		return
	}
	count, _ := strconv.Atoi(env["GIT_CONFIG_COUNT"])
	n := strconv.Itoa(count)
	env["GIT_CONFIG_KEY_"+n] = "credential." + c.Repository + ".helper"
	env["GIT_CONFIG_VALUE_"+n] = "!" + c.CredentialHelper + " " + shell.Quote([]string{c.Repository})
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(count + 1)
}

func (c Checkout) try(sh *shell.Shell, clean bool) error {
	previous, err := c.setAside(sh, clean)
	if err != nil {
		return err
	}
	defer os.RemoveAll(previous)
	if err := c.prepare(sh, previous); err != nil {
		return err
	}
	target, err := c.fetch(sh)
	if err != nil {
		return err
	}
	if err := c.sparse(sh); err != nil {
		return err
	}
	if err := sh.Run("git", "-c", "advice.detachedHead=false", "checkout", "-f", target); err != nil {
		return err
	}
	if err := c.lfs(sh); err != nil {
		return err
	}
	return c.submodules(sh)
}

// setAside empties the checkout directory and returns where its previous content is, or "" if there is nothing
// to reuse.
func (c Checkout) setAside(sh *shell.Shell, clean bool) (previous string, err error) {
	previous = c.Dir + ".previous"
	if err := os.RemoveAll(previous); err != nil { // left by an agent that was killed
		return "", err
	}
	if clean {
		sh.Comment("Removing %s", c.Dir)
		if err := os.RemoveAll(c.Dir); err != nil {
			return "", err
		}
	}
	if err := os.Rename(c.Dir, previous); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	sh.Dir = c.Dir
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return "", err
	}
	if err := sh.Chown(c.Dir); err != nil {
		return "", err
	}
	if about, err := os.Lstat(filepath.Join(previous, ".git")); err != nil || !about.IsDir() {
		return "", os.RemoveAll(previous)
	}
	return previous, nil
}

// prepare makes a clone of the repository in the empty directory.
func (c Checkout) prepare(sh *shell.Shell, previous string) error {
	var err error
	switch {
	case c.incomplete():
		return c.clone(sh)
	case c.Mirrors != "":
		err = c.cloneWithMirror(sh)
	case previous == "":
		return c.clone(sh)
	default:
		err = c.cloneWith(sh, previous)
	}
	if err == nil || errors.Is(err, shell.ErrStopped) {
		return err
	}
	sh.Warning("The objects on this machine cannot be reused: %v", err)
	if err := empty(c.Dir); err != nil {
		return err
	}
	return c.clone(sh)
}

// clone clones the repository, or its mirror if that suffices.
func (c Checkout) clone(sh *shell.Shell) error {
	if c.usesMirror() {
		err := c.cloneMirror(sh)
		if err == nil || errors.Is(err, shell.ErrStopped) {
			return err
		}
		sh.Warning("The mirror cannot be cloned, the repository is used instead: %v", err)
		if err := empty(c.Dir); err != nil {
			return err
		}
	}
	args := append([]string{"git", "clone", "-v", "--no-checkout"}, c.limits()...)
	if c.Depth > 0 {
		args = append(args, "--no-single-branch")
	}
	return sh.Run(append(args, "--", c.Repository, ".")...)
}

// usesMirror reports whether the mirror, which may be behind, has what is needed.
func (c Checkout) usesMirror() bool { return c.Mirror != "" && pinned(c.Commit) }

func (c Checkout) cloneMirror(sh *shell.Shell) error {
	if err := sh.Run("git", "clone", "-v", "--no-checkout", "--", c.Mirror, "."); err != nil {
		return err
	}
	return sh.Run("git", "remote", "set-url", "origin", c.Repository)
}

// empty removes the content of a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// submodules checks out submodules, if there are any.
func (c Checkout) submodules(sh *shell.Shell) error {
	if _, err := os.Stat(filepath.Join(c.Dir, ".gitmodules")); err != nil {
		return nil
	}
	if !c.Submodules {
		sh.Comment("Skipping submodules, because SERVICE_GIT_SUBMODULES is false")
		return nil
	}
	return sh.Run("git", "submodule", "update", "--init", "--recursive", "--force")
}
