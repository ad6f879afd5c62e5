package checkout

import (
	"errors"
	"regexp"
	"strings"

	"stackyard/internal/clients/runner/shell"
)

// newest is what a fetch of one thing brought.
const newest = "FETCH_HEAD"

// fetch brings what is to be checked out, and returns what git calls it.
func (c Checkout) fetch(sh *shell.Shell) (target string, err error) {
	switch {
	case c.Refspec != "":
		return c.orNewest(), fetch(sh, "origin", strings.Fields(c.Refspec)...)
	case c.PullRequest.ref() != "":
		return c.fetchPullRequest(sh)
	case pinned(c.Commit):
		return c.Commit, c.fetchCommit(sh)
	case c.Commit != "" && c.Commit != "HEAD":
		// The short name of a commit: a server knows only whole ones.
		return c.Commit, fetchAll(sh, "origin")
	case c.Tag != "":
		return newest, fetch(sh, "origin", "refs/tags/"+c.Tag)
	case c.Branch != "":
		return newest, fetch(sh, "origin", c.Branch)
	default:
		return newest, fetch(sh, "origin", "HEAD")
	}
}

// orNewest returns the commit, or what was fetched when no certain one is wanted.
func (c Checkout) orNewest() string {
	if c.Commit == "" || c.Commit == "HEAD" {
		return newest
	}
	return c.Commit
}

func (c Checkout) fetchPullRequest(sh *shell.Shell) (target string, err error) {
	err = fetch(sh, "origin", c.PullRequest.ref())
	if errors.Is(err, shell.ErrStopped) || c.orNewest() == newest {
		return newest, err
	}
	// The source host may have forgotten the reference, or moved it on since the build was made.
	if err != nil || !has(sh, c.Commit) {
		return c.Commit, c.fetchCommit(sh)
	}
	return c.Commit, nil
}

// fetchCommit brings a commit, unless it is there already: from the mirror, else from the repository by
// its name, else, because servers need not allow that, with everything there is.
func (c Checkout) fetchCommit(sh *shell.Shell) error {
	if has(sh, c.Commit) {
		sh.Comment("Commit %s is here already", c.Commit)
		return nil
	}
	sources := []string{"origin"}
	if c.Mirror != "" {
		sources = []string{c.Mirror, "origin"}
	}
	for _, source := range sources {
		err := fetch(sh, source, c.Commit)
		if err == nil || errors.Is(err, shell.ErrStopped) {
			return err
		}
	}
	return fetchAll(sh, "origin")
}

// fetchAll brings all branches and tags.
func fetchAll(sh *shell.Shell, source string) error {
	return fetch(sh, source, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
}

func fetch(sh *shell.Shell, source string, refspecs ...string) error {
	return sh.Run(append([]string{"git", "fetch", "-v", "--prune", "--", source}, refspecs...)...)
}

// has reports whether a commit is in the folder's clone.
func has(sh *shell.Shell, commit string) bool {
	_, err := sh.Output("git", "cat-file", "-e", commit+"^{commit}")
	return err == nil
}

var wholeName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// pinned reports whether a commit is known by its whole name.
func pinned(commit string) bool { return wholeName.MatchString(commit) }

// A PullRequest is what a build may be for.
type PullRequest struct {
	Number   string // "false" or "": none
	Provider string // of the repository
	Merge    bool   // build what merging it would give
}

// ref returns the reference under which the source host keeps the pull request, "" when it keeps none.
func (p PullRequest) ref() string {
	if p.Number == "" || p.Number == "false" {
		return ""
	}
	switch {
	case p.Merge && strings.HasPrefix(p.Provider, "github"):
		return "refs/pull/" + p.Number + "/merge"
	case strings.HasPrefix(p.Provider, "github"), p.Provider == "gitea":
		return "refs/pull/" + p.Number + "/head"
	case strings.HasPrefix(p.Provider, "gitlab"):
		return "refs/merge-requests/" + p.Number + "/head"
	case p.Provider == "bitbucket_server":
		return "refs/pull-requests/" + p.Number + "/from"
	}
	return ""
}
