package checkout

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"stackyard/internal/clients/runner/shell"
)

// fetchHead is the result of fetching a single reference.
const fetchHead = "FETCH_HEAD"

// fetch fetches what is needed and returns the revision to check out.
func (c Checkout) fetch(sh *shell.Shell) (target string, err error) {
	switch {
	case c.Refspec != "":
		return c.commitOrFetchHead(), c.fetchLimited(sh, "origin", strings.Fields(c.Refspec)...)
	case c.PullRequest.ref() != "":
		return c.fetchPullRequest(sh)
	case pinned(c.Commit):
		return c.Commit, c.fetchCommit(sh)
	case c.Commit != "" && c.Commit != "HEAD":
		// A server does not resolve abbreviated hashes.
		return c.Commit, fetchAll(sh, "origin")
	case c.Tag != "":
		return fetchHead, c.fetchLimited(sh, "origin", "refs/tags/"+c.Tag)
	case c.Branch != "":
		return fetchHead, c.fetchLimited(sh, "origin", c.Branch)
	default:
		return fetchHead, c.fetchLimited(sh, "origin", "HEAD")
	}
}

// commitOrFetchHead returns the commit if a specific one is wanted.
func (c Checkout) commitOrFetchHead() string {
	if c.Commit == "" || c.Commit == "HEAD" {
		return fetchHead
	}
	return c.Commit
}

func (c Checkout) fetchPullRequest(sh *shell.Shell) (target string, err error) {
	err = c.fetchLimited(sh, "origin", c.PullRequest.ref())
	if errors.Is(err, shell.ErrStopped) || c.commitOrFetchHead() == fetchHead {
		return fetchHead, err
	}
	// The source host may have deleted or moved the reference since the build was created.
	if err != nil || !has(sh, c.Commit) {
		return c.Commit, c.fetchCommit(sh)
	}
	return c.Commit, nil
}

// fetchCommit fetches a commit unless it is present: from the mirror, then by its hash from the repository,
// then, because servers need not allow that, with all branches and tags.
func (c Checkout) fetchCommit(sh *shell.Shell) error {
	if has(sh, c.Commit) {
		sh.Comment("Commit %s is already present", c.Commit)
		return nil
	}
	sources := []string{"origin"}
	if c.Mirror != "" {
		sources = []string{c.Mirror, "origin"}
	}
	for _, source := range sources {
		err := c.fetchLimited(sh, source, c.Commit)
		if err == nil || errors.Is(err, shell.ErrStopped) {
			return err
		}
	}
	return fetchAll(sh, "origin")
}

// fetchAll fetches all branches and tags.
func fetchAll(sh *shell.Shell, source string) error {
	return fetch(sh, source, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
}

func fetch(sh *shell.Shell, source string, refspecs ...string) error {
	return sh.Run(append([]string{"git", "fetch", "-v", "--prune", "--", source}, refspecs...)...)
}

// fetchLimited is fetch of as much history as the checkout wants.
func (c Checkout) fetchLimited(sh *shell.Shell, source string, refspecs ...string) error {
	if c.Depth == 0 {
		return fetch(sh, source, refspecs...)
	}
	return sh.Run(append([]string{"git", "fetch", "-v", "--prune", "--depth", strconv.Itoa(c.Depth), "--", source}, refspecs...)...)
}

// has reports whether the clone contains a commit.
func has(sh *shell.Shell, commit string) bool {
	_, err := sh.Output("git", "cat-file", "-e", commit+"^{commit}")
	return err == nil
}

var fullHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// pinned reports whether commit is a full hash.
func pinned(commit string) bool { return fullHash.MatchString(commit) }

// A PullRequest identifies the pull request of a build.
type PullRequest struct {
	Number   string // "false" or "": none
	Provider string // host of the repository
	Merge    bool   // build the result of merging it
}

// ref returns the source host's reference for the pull request, or "".
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
