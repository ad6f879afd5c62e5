package checkout

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/runner/environ"
	"stackyard/internal/runner/shell"
)

// A repository is one that somebody pushes to.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

// git runs git in the repository and returns what it writes.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = gitEnv().Lines()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits a file and returns the commit's name.
func (r *repository) commit(name, text string) string {
	r.t.Helper()
	write(r.t, filepath.Join(r.dir, name), text)
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "Change "+name)
	return r.git("rev-parse", "HEAD")
}

// gitEnv is an environment in which git knows who commits, nothing of this machine's settings, and
// allows submodules from folders.
func gitEnv() environ.Environment {
	env := environ.Parse(os.Environ())
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@acme.test",
		"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@acme.test",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always",
	} {
		env[name] = value
	}
	return env
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// run checks out and returns the log.
func run(t *testing.T, c Checkout) (log string, err error) {
	t.Helper()
	var out bytes.Buffer
	c.Pause = time.Millisecond
	err = c.Run(&shell.Shell{Log: &out, Env: gitEnv()})
	return out.String(), err
}

// wantFile fails the test unless a file of the checkout has a text; "" means that there is none.
func wantFile(t *testing.T, c Checkout, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(c.Dir, name))
	if want == "" {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a file %s: %q", name, got)
		}
		return
	}
	if err != nil || string(got) != want {
		t.Errorf("%s: %q, %v; want %q", name, got, err, want)
	}
}

func (r *repository) checkout() Checkout {
	return Checkout{Dir: filepath.Join(r.t.TempDir(), "checkout"), Repository: r.dir, Commit: "HEAD", Submodules: true}
}

func mustRun(t *testing.T, c Checkout) (log string) {
	t.Helper()
	log, err := run(t, c)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return log
}

func TestRun_ChecksOutWhatIsAskedFor(t *testing.T) {
	r := newRepository(t)
	first := r.commit("file", "first")
	r.git("tag", "v1")
	second := r.commit("file", "second")
	r.git("checkout", "--quiet", "-b", "feature/x", first)
	feature := r.commit("file", "feature")
	r.git("checkout", "--quiet", "--detach", first)
	proposed := r.commit("file", "proposed")
	for _, ref := range []string{"refs/pull/7/head", "refs/merge-requests/7/head", "refs/pull-requests/7/from"} {
		r.git("update-ref", ref, proposed)
	}
	merged := r.commit("file", "merged")
	r.git("update-ref", "refs/pull/7/merge", merged)
	r.git("checkout", "--quiet", "main")

	tests := []struct {
		name string
		ask  Checkout
		want string
	}{
		{"the newest", Checkout{Commit: "HEAD"}, "second"},
		{"the newest of a branch", Checkout{Commit: "HEAD", Branch: "feature/x"}, "feature"},
		{"the newest of a branch whose commit is not known", Checkout{Branch: "feature/x"}, "feature"},
		{"a tag", Checkout{Commit: "HEAD", Branch: "v1", Tag: "v1"}, "first"},
		{"a commit", Checkout{Commit: first, Branch: "main"}, "first"},
		{"a commit of another branch", Checkout{Commit: feature, Branch: "main"}, "feature"},
		{"a commit by its short name", Checkout{Commit: second[:10], Branch: "main"}, "second"},
		{"a tag given as a commit", Checkout{Commit: "v1", Branch: "main"}, "first"},
		{"a refspec", Checkout{Commit: "HEAD", Branch: "main", Refspec: "refs/pull/7/merge"}, "merged"},
		{"a commit of two refspecs", Checkout{Commit: proposed, Refspec: "refs/heads/main refs/pull/7/head"}, "proposed"},
		{"a pull request of GitHub", Checkout{Commit: "HEAD", Branch: "x", PullRequest: PullRequest{Number: "7", Provider: "github"}}, "proposed"},
		{"its commit", Checkout{Commit: proposed, Branch: "x", PullRequest: PullRequest{Number: "7", Provider: "github_enterprise"}}, "proposed"},
		{"what merging it gives", Checkout{Commit: "HEAD", PullRequest: PullRequest{Number: "7", Provider: "github", Merge: true}}, "merged"},
		{"a pull request of Gitea", Checkout{Commit: "HEAD", PullRequest: PullRequest{Number: "7", Provider: "gitea"}}, "proposed"},
		{"a merge request of GitLab", Checkout{Commit: "HEAD", PullRequest: PullRequest{Number: "7", Provider: "gitlab"}}, "proposed"},
		{"a pull request of Bitbucket Server", Checkout{Commit: "HEAD", PullRequest: PullRequest{Number: "7", Provider: "bitbucket_server"}}, "proposed"},
		{"a pull request whose host keeps no reference", Checkout{Commit: feature, PullRequest: PullRequest{Number: "7", Provider: "bitbucket"}}, "feature"},
		{"a pull request that the host has forgotten", Checkout{Commit: first, PullRequest: PullRequest{Number: "8", Provider: "github"}}, "first"},
		{"no pull request", Checkout{Commit: second, PullRequest: PullRequest{Number: "false", Provider: "github"}}, "second"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.ask
			c.Repository, c.Dir = r.dir, filepath.Join(t.TempDir(), "a", "checkout")
			mustRun(t, c)
			wantFile(t, c, "file", tt.want)
			// The same again, where it is there already.
			mustRun(t, c)
			wantFile(t, c, "file", tt.want)
		})
	}
}

func TestRun_BringsAnOldFolderUpToDateAndCleansIt(t *testing.T) {
	r := newRepository(t)
	r.commit(".gitignore", "ignored\n")
	r.commit("file", "first")
	c := r.checkout()
	mustRun(t, c)
	write(t, filepath.Join(c.Dir, "file"), "changed by a job")
	write(t, filepath.Join(c.Dir, "ignored"), "left by a job")
	write(t, filepath.Join(c.Dir, "folder", "left"), "left by a job")
	write(t, filepath.Join(c.Dir, ".git", "index.lock"), "left by a git that was killed")
	write(t, filepath.Join(c.Dir, ".git", "kept"), "shows that nothing was cloned")

	r.commit("file", "second")
	log := mustRun(t, c)
	wantFile(t, c, "file", "second")
	wantFile(t, c, "ignored", "")
	wantFile(t, c, "folder/left", "")
	wantFile(t, c, ".git/kept", "shows that nothing was cloned")
	if strings.Contains(log, "git clone") {
		t.Errorf("it cloned again:\n%s", log)
	}
}

func TestRun_BeginsAnewWhenACleanCheckoutIsWanted(t *testing.T) {
	r := newRepository(t)
	r.commit("file", "first")
	c := r.checkout()
	mustRun(t, c)
	write(t, filepath.Join(c.Dir, ".git", "kept"), "x")
	c.Clean = true
	mustRun(t, c)
	wantFile(t, c, "file", "first")
	wantFile(t, c, ".git/kept", "")
}

func TestRun_FollowsARepositoryThatHasMoved(t *testing.T) {
	old, moved := newRepository(t), newRepository(t)
	old.commit("file", "old")
	moved.commit("file", "moved")
	c := old.checkout()
	mustRun(t, c)
	c.Repository = moved.dir
	mustRun(t, c)
	wantFile(t, c, "file", "moved")
}

func TestRun_MendsAFolderThatIsBroken(t *testing.T) {
	r := newRepository(t)
	commit := r.commit("file", "first")
	breaks := map[string]func(dir string){
		"not a repository": func(dir string) { os.RemoveAll(filepath.Join(dir, ".git")) },
		"no objects":       func(dir string) { os.RemoveAll(filepath.Join(dir, ".git", "objects")) },
		"no remote":        func(dir string) { os.Remove(filepath.Join(dir, ".git", "config")) },
		"an empty object": func(dir string) {
			path := filepath.Join(dir, ".git", "objects", commit[:2], commit[2:])
			os.Remove(path) // it may be one with that of the repository
			write(t, path, "")
		},
	}
	for name, damage := range breaks {
		c := r.checkout()
		c.Commit = commit
		mustRun(t, c)
		damage(c.Dir)
		if log, err := run(t, c); err != nil {
			t.Errorf("%s: %v\n%s", name, err, log)
		}
		wantFile(t, c, "file", "first")
	}
}

func TestRun_PrefersTheMirrorForWholeCommits(t *testing.T) {
	r, mirror := newRepository(t), newRepository(t)
	commit := r.commit("file", "first")
	mirror.git("fetch", "--quiet", r.dir, "main:mirrored")
	newer := r.commit("file", "second")

	c := r.checkout()
	c.Commit, c.Mirror = commit, mirror.dir
	log := mustRun(t, c)
	if !strings.Contains(log, "-- "+mirror.dir) || strings.Contains(log, "-- "+r.dir) {
		t.Errorf("it did not use the mirror:\n%s", log)
	}
	wantFile(t, c, "file", "first")
	if origin := (&repository{t, c.Dir}).git("remote", "get-url", "origin"); origin != r.dir {
		t.Errorf("origin is %s, want %s", origin, r.dir)
	}

	// What the mirror does not have yet comes from the repository, in an old folder and in a new one.
	for _, dir := range []string{c.Dir, t.TempDir()} {
		c.Dir, c.Commit = dir, newer
		mustRun(t, c)
		wantFile(t, c, "file", "second")
	}
	// So does the newest, whatever the mirror takes for it.
	c.Commit, c.Branch, c.Dir = "HEAD", "main", t.TempDir()
	mustRun(t, c)
	wantFile(t, c, "file", "second")
}

func TestRun_DoesWithoutAMirrorThatIsAway(t *testing.T) {
	r := newRepository(t)
	c := r.checkout()
	c.Commit, c.Mirror = r.commit("file", "first"), filepath.Join(t.TempDir(), "nothing")
	log := mustRun(t, c)
	wantFile(t, c, "file", "first")
	if !strings.Contains(log, "The mirror cannot be cloned") {
		t.Errorf("it does not say so:\n%s", log)
	}
}

func TestRun_ChecksOutSubmodules(t *testing.T) {
	library, r := newRepository(t), newRepository(t)
	library.commit("code", "one")
	r.git("submodule", "--quiet", "add", library.dir, "lib")
	r.commit("file", "first")
	c := r.checkout()
	mustRun(t, c)
	wantFile(t, c, "lib/code", "one")

	write(t, filepath.Join(c.Dir, "lib", "code"), "changed by a job")
	write(t, filepath.Join(c.Dir, "lib", "left"), "left by a job")
	mustRun(t, c)
	wantFile(t, c, "lib/code", "one")
	wantFile(t, c, "lib/left", "")

	c.Submodules, c.Clean = false, true
	mustRun(t, c)
	wantFile(t, c, "file", "first")
	wantFile(t, c, "lib/code", "")
}

func TestRun_FailsWithTheStatusOfGit(t *testing.T) {
	r := newRepository(t)
	r.commit("file", "first")
	for name, ask := range map[string]Checkout{
		"no repository": {Repository: filepath.Join(t.TempDir(), "nothing"), Commit: "HEAD"},
		"no branch":     {Repository: r.dir, Commit: "HEAD", Branch: "nothing"},
		"no commit":     {Repository: r.dir, Commit: strings.Repeat("1", 40)},
		"an odd branch": {Repository: r.dir, Commit: "HEAD", Branch: "--upload-pack=touch pwned"},
	} {
		ask.Dir = t.TempDir()
		log, err := run(t, ask)
		exit, ok := errors.AsType[*shell.ExitError](err)
		if !ok || exit.ExitStatus == 0 {
			t.Errorf("%s: %v\n%s", name, err, log)
		}
		if strings.Count(log, "Checkout failed") != attempts-1 {
			t.Errorf("%s: not tried %d times:\n%s", name, attempts, log)
		}
	}
	if _, err := run(t, Checkout{Dir: t.TempDir(), Repository: r.dir, Commit: "--pathspec-from-file=x"}); err == nil {
		t.Error("a commit that is an option was taken")
	}
}

func TestRun_StopsWhenTheJobHasTo(t *testing.T) {
	r := newRepository(t)
	r.commit("file", "first")
	c := r.checkout()
	stopped := make(chan struct{})
	close(stopped)
	sh := &shell.Shell{Log: &bytes.Buffer{}, Env: gitEnv()}
	sh.Stop.Ask = stopped
	if err := c.Run(sh); !errors.Is(err, shell.ErrStopped) {
		t.Errorf("got %v", err)
	}
}

func TestIntroduceHelper_LetsGitAskForThisRepositoryAlone(t *testing.T) {
	script := filepath.Join(t.TempDir(), "helper")
	write(t, script, "#!/bin/sh\necho username=token\necho \"password=for $1 $2\"\n")
	if err := os.Chmod(script, 0o777); err != nil {
		t.Fatal(err)
	}
	env := gitEnv()
	quiet(env)
	Checkout{Repository: "https://git.acme.test/acme/hello.git", CredentialHelper: script}.introduceHelper(env)
	fill := func(path string) string {
		cmd := exec.Command("git", "credential", "fill")
		cmd.Env = env.Lines()
		cmd.Stdin = strings.NewReader("protocol=https\nhost=git.acme.test\npath=" + path + "\n\n")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := fill("acme/hello.git"); !strings.Contains(got, "username=token\npassword=for https://git.acme.test/acme/hello.git get\n") {
		t.Errorf("got %s", got)
	}
	if got := fill("other/hello.git"); strings.Contains(got, "password=") {
		t.Errorf("got %s for another repository", got)
	}
}

func TestOf_ReadsTheJobsVariables(t *testing.T) {
	got := Of(environ.Environment{
		"SERVICE_REPO": "r", "SERVICE_GIT_REMOTE_MIRROR_URL": "m", "SERVICE_COMMIT": "c", "BUILDKITE_BRANCH": "b", "SERVICE_TAG": "t",
		"SERVICE_PULL_REQUEST": "7", "SERVICE_PIPELINE_PROVIDER": "github", "SERVICE_CLEAN_CHECKOUT": "true", "SERVICE_GIT_SUBMODULES": "false",
	})
	want := Checkout{Repository: "r", Mirror: "m", Commit: "c", Branch: "b", Tag: "t", Clean: true, PullRequest: PullRequest{Number: "7", Provider: "github"}, Pause: got.Pause}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUnusable_KnowsPlaceholders(t *testing.T) {
	placeholders := []string{"", " ", "https://git.example.test/acme/hello.git", "git@git.example.test:acme/hello.git", "ssh://git@code.invalid:22/x", "git.example.test:x.git"}
	for _, repository := range placeholders {
		if Unusable(t.Context(), repository) == "" {
			t.Errorf("%q is taken for a repository", repository)
		}
	}
	for _, repository := range []string{"/srv/git/hello", "./hello", "file:///srv/git/hello", "https://github.com/a/b", "git@github.com:a/b.git", "C:/x", "https://contest/x"} {
		if why := Unusable(t.Context(), repository); why != "" {
			t.Errorf("%q: %s", repository, why)
		}
	}
}

func TestClaim_GivesEachJobAPlaceOfItsOwn(t *testing.T) {
	path := t.TempDir()
	one, err := Claim(path, "acme", "hello")
	if err != nil {
		t.Fatal(err)
	}
	two, err := Claim(path, "acme", "hello")
	if err != nil {
		t.Fatal(err)
	}
	if one.Dir != filepath.Join(path, "acme", "hello") || two.Dir != one.Dir+"-2" {
		t.Errorf("places %s and %s", one.Dir, two.Dir)
	}
	if err := one.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Claim(path, "acme", "hello")
	if err != nil || again.Dir != one.Dir {
		t.Errorf("after it was released: %+v, %v", again, err)
	}
}

func TestClaim_StaysBelowTheBuildPath(t *testing.T) {
	path := t.TempDir()
	for _, slug := range []string{"..", "../..", "/etc", "", "."} {
		place, err := Claim(path, slug, slug)
		if err != nil {
			t.Fatal(err)
		}
		if rel, err := filepath.Rel(path, place.Dir); err != nil || strings.HasPrefix(rel, "..") || strings.Count(rel, "/") != 1 {
			t.Errorf("%q: %s", slug, place.Dir)
		}
		place.Release()
	}
}
