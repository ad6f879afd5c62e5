package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func exists(paths ...string) bool {
	_, err := os.Stat(filepath.Join(paths...))
	return err == nil
}

func TestRun_SharesAMirror(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first := r.commit("a.txt", "one")
	mirrors := t.TempDir()
	var running sync.WaitGroup
	for range 3 { // at the same time
		dir := filepath.Join(t.TempDir(), "checkout")
		running.Go(func() {
			if log, err := run(t, Checkout{Dir: dir, Repository: r.dir, Commit: first, Branch: "main", Mirrors: mirrors}); err != nil || !exists(dir, "a.txt") {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
	running.Wait()
	found, _ := filepath.Glob(filepath.Join(mirrors, "*", "HEAD"))
	if len(found) != 1 {
		t.Fatalf("mirrors %q", found)
	}
	second := r.commit("b.txt", "two")
	dir := filepath.Join(t.TempDir(), "checkout")
	log, err := run(t, Checkout{Dir: dir, Repository: r.dir, Commit: second, Branch: "main", Mirrors: mirrors})
	if err != nil || !exists(dir, "b.txt") {
		t.Errorf("%v\n%s", err, log)
	}
	log, err = run(t, Checkout{Dir: dir, Repository: r.dir, Commit: second, Branch: "main", Mirrors: mirrors})
	if err != nil || !strings.Contains(log, "The mirror has commit") {
		t.Errorf("%v\n%s", err, log)
	}
	// A broken mirror is not used.
	if err := os.RemoveAll(filepath.Join(filepath.Dir(found[0]), "objects")); err != nil {
		t.Fatal(err)
	}
	if log, err := run(t, Checkout{Dir: dir, Repository: r.dir, Commit: second, Branch: "main", Mirrors: mirrors}); err != nil || !exists(dir, "b.txt") {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestRun_ChecksOutParts(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.git("config", "uploadpack.allowFilter", "true")
	r.git("config", "uploadpack.allowAnySHA1InWant", "true")
	r.commit("docs/a.txt", "one")
	r.commit("src/b.txt", "two")
	commit := r.commit("src/deep/c.txt", "three")
	dir := filepath.Join(t.TempDir(), "checkout")
	repository := "file://" + r.dir
	if log, err := run(t, Checkout{Dir: dir, Repository: repository, Commit: commit, Sparse: []string{"src/deep"}, Filter: "blob:none"}); err != nil || exists(dir, "docs") || !exists(dir, "src/deep/c.txt") {
		t.Errorf("%v\n%s", err, log)
	}
	if log, err := run(t, Checkout{Dir: dir, Repository: repository, Commit: commit, Sparse: []string{"*.txt", "!c.txt"}, SparsePatterns: true}); err != nil || !exists(dir, "docs/a.txt") || exists(dir, "src/deep/c.txt") {
		t.Errorf("%v\n%s", err, log)
	}
	log, err := run(t, Checkout{Dir: dir, Repository: repository, Commit: "HEAD", Branch: "main", Depth: 1})
	count, _ := exec.Command("git", "-C", dir, "rev-list", "--count", "HEAD").Output()
	if err != nil || strings.TrimSpace(string(count)) != "1" || !exists(dir, "docs/a.txt") {
		t.Errorf("%v, %s commits\n%s", err, count, log)
	}
	for _, bad := range []Checkout{{Sparse: []string{"--stdin"}}, {Filter: "sparse:oid=x"}} {
		bad.Dir, bad.Repository, bad.Commit = dir, repository, commit
		if _, err := run(t, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestRun_DownloadsFilesOfLFS(t *testing.T) {
	t.Parallel()
	if exec.Command("git", "lfs", "version").Run() != nil {
		t.Skip("git-lfs is not installed")
	}
	r := newRepository(t)
	r.git("lfs", "install", "--local")
	r.git("lfs", "track", "*.bin")
	commit := r.commit("large.bin", "the content")
	// A folder is served by the transfer agent of git-lfs for local repositories.
	dir := filepath.Join(t.TempDir(), "checkout")
	content := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "large.bin"))
		return string(text)
	}
	if log, err := run(t, Checkout{Dir: dir, Repository: "file://" + r.dir, Commit: commit, LFS: true}); err != nil || content() != "the content" {
		t.Errorf("%v, %q\n%s", err, content(), log)
	}
}
