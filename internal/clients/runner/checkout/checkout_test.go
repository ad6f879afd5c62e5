package checkout

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// A repository is a repository to push to.
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

// git runs git in the repository and returns its output.
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

// commit commits a file and returns the hash.
func (r *repository) commit(name, text string) string {
	r.t.Helper()
	write(r.t, filepath.Join(r.dir, name), text)
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "Change "+name)
	return r.git("rev-parse", "HEAD")
}

// gitEnv returns an environment with a git author, without settings of this machine, that allows submodules
// from directories.
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

// wantFile checks the content of a file; "" means that it does not exist.
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

func TestRun_ChecksOutWhatIsRequested(t *testing.T) {
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
			// Again, with the commit already present.
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

	r.commit("file", "second")
	log := mustRun(t, c)
	wantFile(t, c, "file", "second")
	wantFile(t, c, "ignored", "")
	wantFile(t, c, "folder/left", "")
	// The commit, its tree and its file are new; the six objects before them are not.
	if sent := objectsSent.FindStringSubmatch(log); strings.Contains(log, "git clone") || sent == nil || sent[1] != "3" {
		t.Errorf("the repository sent %q objects, want 3:\n%s", sent, log)
	}
	if _, err := os.Stat(c.Dir + ".previous"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the previous checkout is left: %v", err)
	}
}

var objectsSent = regexp.MustCompile(`remote: Total ([0-9]+)`)

// The content of .git is the same with and without reused objects.
func TestRun_LeavesTheSameReferencesInAReusedDirectory(t *testing.T) {
	r := newRepository(t)
	first := r.commit("file", "first")
	r.git("tag", "v1")
	r.git("branch", "feature/x")
	state := func(c Checkout) string {
		in := &repository{t, c.Dir}
		return strings.Join([]string{
			in.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)"), in.git("config", "--local", "--list"),
			in.git("status", "--porcelain=v2", "--branch"), in.git("rev-list", "--all", "--objects"),
		}, "\n\n")
	}
	c := r.checkout()
	c.Commit = first
	mustRun(t, c)
	r.commit("file", "second")
	r.git("branch", "-D", "feature/x")
	r.git("branch", "feature/y")
	mustRun(t, c)
	again := state(c)
	fresh := c
	fresh.Dir = filepath.Join(t.TempDir(), "checkout")
	mustRun(t, fresh)
	if want := state(fresh); again != want {
		t.Errorf("in an old folder\n%s\nwant\n%s", again, want)
	}
}

func TestRun_TrustsNothingThatAJobHasLeft(t *testing.T) {
	t.Parallel()
	// Each script runs in the checkout like the previous job. $RUN is a program that must not run.
	tests := map[string]string{
		"hooks":                         `for hook in post-checkout reference-transaction post-index-change pre-auto-gc fsmonitor-watchman; do cp "$RUN" .git/hooks/$hook; done`,
		"hooks elsewhere":               `mkdir .git/mine; cp "$RUN" .git/mine/post-checkout; git config core.hooksPath .git/mine`,
		"fsmonitor":                     `git config core.fsmonitor "$RUN"`,
		"filters":                       `git config filter.x.smudge "$RUN"; git config filter.x.clean "$RUN"; git config filter.x.required true; echo '* filter=x' >.git/info/attributes`,
		"included configuration":        `printf '[core]\n\tfsmonitor = %s\n' "$RUN" >.git/more; git config include.path more`,
		"ssh":                           `git config core.sshCommand "$RUN"; git config "url.ssh://localhost/.insteadOf" /`,
		"fetch through a program":       `git config remote.origin.uploadpack "$RUN"; git config uploadpack.packObjectsHook "$RUN"; git config core.alternateRefsCommand "$RUN"`,
		"transport":                     `git config remote.origin.vcs x; git config protocol.ext.allow always; git config "url.ext::$RUN .insteadOf" /`,
		"credentials":                   `git config credential.helper "!$RUN"`,
		"maintenance":                   `git config gc.auto 1; git config gc.recentObjectsHook "$RUN"; cp "$RUN" .git/hooks/pre-auto-gc`,
		".git as a file":                `mv .git ../evil; git --git-dir=../evil config core.fsmonitor "$RUN"; cp "$RUN" ../evil/hooks/post-checkout; echo "gitdir: ../evil" >.git`,
		".git as a link":                `mv .git ../evil; git --git-dir=../evil config core.fsmonitor "$RUN"; cp "$RUN" ../evil/hooks/post-checkout; ln -s ../evil .git`,
		"a worktree elsewhere":          `mkdir ../elsewhere; git config core.worktree ../../elsewhere`,
		"files git does not look at":    `echo evil >file; git update-index --skip-worktree file`,
		"files git takes for unchanged": `echo evil >file; git update-index --assume-unchanged file`,
		"sparse checkout":               `git config core.sparseCheckout true; echo /nothing >.git/info/sparse-checkout; git read-tree -mu HEAD || true; echo evil >file`,
		"a replaced object":             `evil=$(echo evil | git hash-object -w --stdin); git replace $(git rev-parse HEAD:file) $evil`,
		"an object with other bytes": `evil=$(echo evil | git hash-object -w --stdin); name=$(git rev-parse HEAD:file)
			path=.git/objects/$(echo $name | cut -c1-2)/$(echo $name | cut -c3-)
			rm $path; cp .git/objects/$(echo $evil | cut -c1-2)/$(echo $evil | cut -c3-) $path`,
		"a pipe among the objects":   `mkdir -p .git/objects/pack; mkfifo .git/objects/pack/pack-1.pack .git/objects/pack/pack-1.idx .git/refs/heads/pipe`,
		"references":                 `evil=$(echo evil | git hash-object -w --stdin); git update-ref refs/tags/evil $evil; git update-ref refs/heads/evil HEAD; git update-ref refs/remotes/origin/evil HEAD`,
		"a folder that is not there": `cd ..; rm -rf checkout`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.commit("other", "other\n")
			r.commit("file", "first\n")
			c := r.checkout()
			mustRun(t, c)
			ran := filepath.Join(t.TempDir(), "ran")
			program := filepath.Join(t.TempDir(), "program")
			write(t, program, "#!/bin/sh\necho \"$0 $*\" >>"+ran+"\nexit 1\n")
			if err := os.Chmod(program, 0o777); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = c.Dir
			env := gitEnv()
			env["RUN"] = program
			cmd.Env = env.Lines()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := os.RemoveAll(ran); err != nil {
				t.Fatal(err)
			}
			log := mustRun(t, c)
			if what, err := os.ReadFile(ran); err == nil {
				t.Errorf("it ran what the job had left: %s\n%s", what, log)
			}
			wantFile(t, c, "file", "first\n")
			wantFile(t, c, "other", "other\n")
			in := &repository{t, c.Dir}
			if refs := in.git("for-each-ref", "--format=%(refname)"); strings.Contains(refs, "evil") || strings.Contains(refs, "previous") {
				t.Errorf("references that the repository does not have: %s", refs)
			}
			if config := in.git("config", "--local", "--list"); strings.Contains(config, program) || strings.Contains(config, "previous") {
				t.Errorf("configuration %s", config)
			}
		})
	}
}

func TestRun_RefusesTransportHelpers(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("file", "first")
	for _, url := range []string{"fd::3", "fd::0/x", "ext::sh -c 'touch pwned'", "::x", "x::https://git.acme.test/x.git", "x://git.acme.test/x.git", "HTTPS://git.acme.test/x", "--upload-pack=x"} {
		for what, c := range map[string]Checkout{
			"repository": {Repository: url, Commit: "HEAD"},
			"mirror":     {Repository: r.dir, Mirror: url, Commit: strings.Repeat("1", 40)},
		} {
			c.Dir = filepath.Join(t.TempDir(), "checkout")
			log, err := run(t, c)
			if err == nil || !strings.Contains(err.Error(), "the repository") || log != "" {
				t.Errorf("%s %s: %v\n%s", what, url, err, log)
			}
		}
	}
	for _, url := range []string{"", "https://git.acme.test/x.git", "http://x", "ssh://git@x:22/y", "git://x/y", "file:///srv/x", "git+ssh://x/y", "/srv/x", "../x", "git@host:acme/x.git", "host:a::b", "C:/x"} {
		if err := CheckTransport(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestRun_RefusesTransportHelpersOfSubmodules(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ext::sh -c touch% pwned", "fd::0"} {
		r := newRepository(t)
		commit := r.commit("file", "first")
		r.git("update-index", "--add", "--cacheinfo", "160000,"+commit+",lib")
		write(t, filepath.Join(r.dir, ".gitmodules"), "[submodule \"lib\"]\n\tpath = lib\n\turl = "+url+"\n")
		r.git("add", ".gitmodules")
		r.git("commit", "--quiet", "-m", "Add a submodule")
		c := r.checkout()
		log, err := run(t, c)
		if err == nil || !strings.Contains(log, "not allowed") {
			t.Errorf("%s: %v\n%s", url, err, log)
		}
		wantFile(t, c, "pwned", "")
	}
}

func TestRun_EndsGitWhenItTakesTooLong(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	write(t, filepath.Join(bin, "git"), "#!/bin/sh\necho waiting\nsleep 1000\n")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o777); err != nil {
		t.Fatal(err)
	}
	env := gitEnv()
	env["PATH"] = bin + ":" + env["PATH"]
	var out bytes.Buffer
	sh := &shell.Shell{Log: &out, Env: env}
	err := Checkout{Dir: filepath.Join(t.TempDir(), "checkout"), Repository: "/srv/x", Commit: "HEAD", Timeout: time.Millisecond}.Run(sh)
	if err == nil || !strings.Contains(err.Error(), "git did not finish within 1ms") || errors.Is(err, shell.ErrStopped) {
		t.Errorf("%v\n%s", err, &out)
	}
	if sh.Stopped() {
		t.Error("the job must stop too")
	}
}

func TestRun_StartsOverForACleanCheckout(t *testing.T) {
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
			os.Remove(path) // it may be a hard link to the repository's file
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

	// Commits that the mirror lacks come from the repository, in an old and in a new directory.
	for _, dir := range []string{c.Dir, t.TempDir()} {
		c.Dir, c.Commit = dir, newer
		mustRun(t, c)
		wantFile(t, c, "file", "second")
	}
	// The newest commit also does, even if the mirror has another one.
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
	sh.Stop.Term = stopped
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
	Checkout{Repository: "https://git.acme.test/acme/hello.git", CredentialHelper: script}.addCredentialHelper(env)
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
	want := Checkout{Repository: "r", Mirror: "m", Commit: "c", Branch: "b", Tag: "t", Clean: true, PullRequest: PullRequest{Number: "7", Provider: "github"}, Sparse: []string{}, Pause: got.Pause}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUnusable_DetectsPlaceholders(t *testing.T) {
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
