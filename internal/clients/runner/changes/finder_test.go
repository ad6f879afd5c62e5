package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A repository is a clone of a real repository.
type repository struct {
	t      *testing.T
	origin string
	clone  string
}

func newRepository(t *testing.T) *repository {
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Grace")
		t.Setenv("GIT_"+who+"_EMAIL", "grace@acme.test")
	}
	r := &repository{t: t, origin: filepath.Join(t.TempDir(), "origin"), clone: filepath.Join(t.TempDir(), "clone")}
	r.git(t.TempDir(), "init", "-q", "-b", "main", r.origin)
	r.commit(r.origin, "README", "go.mod")
	r.git(t.TempDir(), "clone", "-q", r.origin, r.clone)
	return r
}

func (r *repository) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files and commits them.
func (r *repository) commit(dir string, files ...string) string {
	r.t.Helper()
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		old, _ := os.ReadFile(path)
		if err := os.WriteFile(path, append(old, "more\n"...), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git(dir, "add", "-A")
	r.git(dir, "commit", "-q", "-m", "Change "+strings.Join(files, " "))
	return r.git(dir, "rev-parse", "HEAD")
}

func (r *repository) files(f Finder) ([]string, error) {
	f.Dir, f.Log = r.clone, r.t.Logf
	files, err := f.Files(r.t.Context())
	slices.Sort(files)
	return files, err
}

func (r *repository) want(f Finder, want ...string) {
	r.t.Helper()
	if got, err := r.files(f); err != nil || !slices.Equal(got, want) {
		r.t.Errorf("%+v: %q, %v; want %q", f, got, err, want)
	}
}

func TestFiles_AreThoseSinceTheMergeBase(t *testing.T) {
	r := newRepository(t)
	r.git(r.clone, "checkout", "-q", "-b", "tea")
	first := r.commit(r.clone, "docs/a.md", "odd name\n\tä.txt")
	r.commit(r.clone, "src/main.go")
	r.git(r.clone, "rm", "-q", "go.mod")
	r.git(r.clone, "commit", "-q", "-m", "Remove")
	r.commit(r.origin, "other.go") // main has moved on
	r.git(r.clone, "fetch", "-q")

	r.want(Finder{Base: "origin/main"}, "docs/a.md", "go.mod", "odd name\n\tä.txt", "src/main.go")
	r.want(Finder{Base: first}, "go.mod", "src/main.go")
	r.want(Finder{Base: "HEAD"}, "go.mod") // of the base branch itself: the last commit
}

func TestFiles_OfAMergeAreThoseThatItBrought(t *testing.T) {
	r := newRepository(t)
	r.git(r.clone, "checkout", "-q", "-b", "tea")
	r.commit(r.clone, "a.go")
	r.commit(r.clone, "b.go")
	r.git(r.clone, "checkout", "-q", "main")
	r.commit(r.clone, "c.go")
	r.git(r.clone, "merge", "-q", "--no-ff", "tea", "-m", "Merge")
	r.git(r.clone, "push", "-q", "origin", "HEAD:refs/heads/release")
	r.git(r.clone, "fetch", "-q")
	r.want(Finder{Base: "origin/release"}, "a.go", "b.go")
}

func TestFiles_FetchTheBase(t *testing.T) {
	r := newRepository(t)
	r.git(r.clone, "checkout", "-q", "-b", "tea")
	r.commit(r.clone, "a.go")
	r.git(r.origin, "checkout", "-q", "-b", "release")
	base := r.commit(r.origin, "b.go")
	r.want(Finder{Base: "origin/release"}, "a.go") // the clone did not have it
	r.git(r.clone, "merge", "-q", "--no-edit", "origin/release")
	r.want(Finder{Base: base}, "a.go")

	r.commit(r.origin, "c.go")
	r.git(r.clone, "fetch", "-q", r.origin, "release")
	r.git(r.clone, "merge", "-q", "--no-edit", "FETCH_HEAD")
	r.want(Finder{Base: "origin/release"}, "a.go", "c.go")
	r.want(Finder{Base: "origin/release", Fetch: true}, "a.go")
}

func TestFiles_SayWhatIsMissing(t *testing.T) {
	r := newRepository(t)
	for _, base := range []string{"origin/none", "--upload-pack=touch x", "", "none"} {
		if files, err := r.files(Finder{Base: base}); err == nil || !strings.Contains(err.Error(), "is not in the repository; set --git-diff-base") {
			t.Errorf("%q: %q, %v", base, files, err)
		}
	}
	r.git(r.clone, "checkout", "-q", "--orphan", "new")
	r.commit(r.clone, "a.go")
	if files, err := r.files(Finder{Base: "origin/main"}); err == nil || !strings.Contains(err.Error(), "no common commit") {
		t.Errorf("%q, %v", files, err)
	}
}

func TestFiles_CanBeGiven(t *testing.T) {
	r := newRepository(t)
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("a.go\r\n\n docs/b c.md\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.want(Finder{Path: list}, " docs/b c.md", "a.go")
	if _, err := r.files(Finder{Path: list + "x"}); err == nil {
		t.Error("a file that is not there")
	}
}

func TestBase(t *testing.T) {
	for want, given := range map[string][3]string{
		"origin/dev":     {"origin/dev", "main", "trunk"},
		"origin/release": {"", "release", "trunk"},
		"origin/trunk":   {"", "", "trunk"},
		"origin/main":    {},
	} {
		if got := Base(given[0], given[1], given[2]); got != want {
			t.Errorf("%q: %s", given, got)
		}
	}
}
