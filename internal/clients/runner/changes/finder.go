package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A Finder lists the files that a build changed.
type Finder struct {
	Dir   string // inside of a checkout; empty: the working directory
	Base  string // such as origin/main, or a commit
	Fetch bool   // whether to fetch Base first; it is fetched anyway if the checkout does not have it
	Path  string // of a file that lists the changed files, one in each line; empty: git finds them

	Log func(format string, args ...any)
}

// Base returns what a build is compared with: what was given, or else the base branch of its pull request, the default
// branch of its pipeline, or main.
func Base(given, pullRequestBase, defaultBranch string) string {
	switch {
	case given != "":
		return given
	case pullRequestBase != "":
		return "origin/" + pullRequestBase
	case defaultBranch != "":
		return "origin/" + defaultBranch
	}
	return "origin/main"
}

// Files returns the changed files, relative to the root of the repository.
func (f *Finder) Files(ctx context.Context) ([]string, error) {
	if f.Path != "" {
		text, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, err
		}
		return lines(string(text), "\n"), nil
	}
	base, err := f.commit(ctx, f.Base)
	if err != nil || f.Fetch {
		if fetchErr := f.fetch(ctx); fetchErr != nil && err == nil {
			f.Log("Could not fetch %s: %v", f.Base, fetchErr)
		}
		if base, err = f.commit(ctx, f.Base); err != nil {
			return nil, fmt.Errorf("%s is not in the repository; set --git-diff-base to a branch such as origin/main", f.Base)
		}
	}
	head, err := f.commit(ctx, "HEAD")
	if err != nil {
		return nil, err
	}
	if base == head {
		// A build of the base branch itself. Several commits can have been pushed together, which nothing says.
		f.Log("The build is of %s itself, so if_changed compares with the commit before it.", f.Base)
		return f.run(ctx, "log", "-z", "--first-parent", "-1", "--name-only", "--pretty=format:", "HEAD")
	}
	merged, err := f.git(ctx, "merge-base", base, head)
	if err != nil {
		return nil, fmt.Errorf("%s and the build's commit have no common commit in this checkout: %w", f.Base, err)
	}
	f.Log("if_changed compares with %s, where the build's commit left %s.", merged, f.Base)
	return f.run(ctx, "diff", "-z", "--name-only", "--no-renames", merged)
}

// commit returns the SHA of a revision, which can be anything that a user writes.
func (f *Finder) commit(ctx context.Context, revision string) (string, error) {
	return f.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
}

// fetch gets the base from the repository. A branch is stored as the one of origin.
func (f *Finder) fetch(ctx context.Context) error {
	refspec := f.Base
	if branch, ok := strings.CutPrefix(f.Base, "origin/"); ok {
		refspec = "+refs/heads/" + branch + ":refs/remotes/origin/" + branch
	}
	_, err := f.git(ctx, "fetch", "--quiet", "--no-tags", "--end-of-options", "origin", refspec)
	return err
}

// run returns the names of files that a command prints.
func (f *Finder) run(ctx context.Context, args ...string) ([]string, error) {
	out, err := f.git(ctx, args...)
	return lines(out, "\x00"), err
}

// git runs git and returns its output without spaces at the ends.
func (f *Finder) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = f.Dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && len(failed.Stderr) > 0 {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// lines returns the lines that are not blank.
func lines(text, separator string) (list []string) {
	for line := range strings.SplitSeq(text, separator) {
		if line = strings.Trim(line, "\r\n"); strings.TrimSpace(line) != "" {
			list = append(list, line)
		}
	}
	return list
}
