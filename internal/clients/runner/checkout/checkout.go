// Package checkout brings the right commit of a repository into a folder with git.
//
// The job that used the folder before could write anything into it, also into .git: hooks, configuration that
// runs programs, files that git does not look at. So every checkout starts with an empty folder and a new .git.
// Of the former one only the objects are reused (reuse.go), to save the network.
package checkout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// A Checkout says what to check out, and where.
type Checkout struct {
	Dir         string
	Repository  string // anything that git clone takes
	Mirror      string // a faster place for commits that are known by their whole name; may lag behind
	Commit      string // "HEAD": the newest of the branch or tag
	Branch      string
	Tag         string
	Refspec     string // what to fetch instead of all that; several are separated by spaces
	PullRequest PullRequest
	Clean       bool // in an empty folder
	Submodules  bool
	// CredentialHelper is the command that git may ask for a name and a password when the repository wants
	// them, after the helpers that are configured; the repository's URL is its last argument but one.
	CredentialHelper string

	// Timeout bounds the whole checkout; 0 does not.
	Timeout time.Duration
	// Pause is how long to wait before another try.
	Pause time.Duration
}

// attempts is how often a checkout is tried: networks fail.
const attempts = 3

// stopGrace is how long git may take to stop when the time is over.
const stopGrace = 5 * time.Second

// Of returns the checkout that a job's variables ask for.
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
		Pause:      2 * time.Second,
	}
}

// Run checks out. The shell's folder need not exist; after it, it is the folder of the checkout.
func (c Checkout) Run(sh *shell.Shell) error {
	if strings.HasPrefix(c.Commit, "-") {
		return errors.New("a commit cannot begin with a dash: " + c.Commit)
	}
	for _, url := range []string{c.Repository, c.Mirror} {
		if err := checkTransport(url); err != nil {
			return err
		}
	}
	quiet(sh.Env)
	c.introduceHelper(sh.Env)
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
		case <-sh.Stop.Ask:
			return shell.ErrStopped
		}
		// Perhaps the folder is what is broken.
		clean = true
	}
}

// quiet keeps git and ssh from asking questions that nobody would answer.
func quiet(env environ.Environment) {
	env["GIT_TERMINAL_PROMPT"] = "0"
	if env["GIT_SSH_COMMAND"] == "" && env["GIT_SSH"] == "" {
		env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new"
	}
}

// introduceHelper tells git about the helper, for this repository alone.
func (c Checkout) introduceHelper(env environ.Environment) {
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
	if err := sh.Run("git", "-c", "advice.detachedHead=false", "checkout", "-f", target); err != nil {
		return err
	}
	return c.submodules(sh)
}

// setAside makes the folder of the checkout empty and returns where its former content is now, "" when there
// is nothing in it to reuse.
func (c Checkout) setAside(sh *shell.Shell, clean bool) (previous string, err error) {
	previous = c.Dir + ".previous"
	if err := os.RemoveAll(previous); err != nil { // of an agent that was killed
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
	if err := sh.Give(c.Dir); err != nil {
		return "", err
	}
	if about, err := os.Lstat(filepath.Join(previous, ".git")); err != nil || !about.IsDir() {
		return "", os.RemoveAll(previous)
	}
	return previous, nil
}

// prepare makes the folder, which is empty, a clone of the repository.
func (c Checkout) prepare(sh *shell.Shell, previous string) error {
	if previous == "" {
		return c.clone(sh)
	}
	err := c.cloneWith(sh, previous)
	if err == nil || errors.Is(err, shell.ErrStopped) {
		return err
	}
	sh.Warning("The previous checkout cannot be reused: %v", err)
	if err := empty(c.Dir); err != nil {
		return err
	}
	return c.clone(sh)
}

// clone clones the repository, from its mirror where that will do.
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
	return sh.Run("git", "clone", "-v", "--no-checkout", "--", c.Repository, ".")
}

// usesMirror reports whether the mirror, which may lag behind, is good for what is to be checked out.
func (c Checkout) usesMirror() bool { return c.Mirror != "" && pinned(c.Commit) }

func (c Checkout) cloneMirror(sh *shell.Shell) error {
	if err := sh.Run("git", "clone", "-v", "--no-checkout", "--", c.Mirror, "."); err != nil {
		return err
	}
	return sh.Run("git", "remote", "set-url", "origin", c.Repository)
}

// empty removes what is in a folder.
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

// submodules checks out the submodules, if there are any.
func (c Checkout) submodules(sh *shell.Shell) error {
	if _, err := os.Stat(filepath.Join(c.Dir, ".gitmodules")); err != nil {
		return nil
	}
	if !c.Submodules {
		sh.Comment("Submodules are left out, as SERVICE_GIT_SUBMODULES says")
		return nil
	}
	return sh.Run("git", "submodule", "update", "--init", "--recursive", "--force")
}
