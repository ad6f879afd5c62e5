package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLock_FindsEveryChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("hooks/command", "echo hello", 0o755)
	write("README.md", "about", 0o644)
	plugins, err := Parse(`["thing#v1", "thing#v2"]`)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Sum(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := ParseLock("# pinned\n\n" + plugins[0].Line(sum) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Check(plugins[0], dir); err != nil {
		t.Error(err)
	}
	if err := lock.Check(plugins[1], dir); err == nil || !strings.Contains(err.Error(), "has no https://github.com/buildkite-plugins/thing-buildkite-plugin#v2") {
		t.Errorf("got %v", err)
	}
	if err := Lock(nil).Check(plugins[1], dir); err != nil {
		t.Error(err)
	}
	write(".git/config", "changed", 0o644)
	if err := lock.Check(plugins[0], dir); err != nil {
		t.Errorf("git's own files count: %v", err)
	}
	for name, change := range map[string]func(){
		"content": func() { write("hooks/command", "echo hell0", 0o755) },
		"mode":    func() { write("hooks/command", "echo hello", 0o644) },
		"file":    func() { write("hooks/extra", "", 0o644) },
		"link":    func() { os.Remove(filepath.Join(dir, "README.md")); os.Symlink("x", filepath.Join(dir, "README.md")) },
	} {
		change()
		if err := lock.Check(plugins[0], dir); err == nil || !strings.Contains(err.Error(), "were changed") {
			t.Errorf("%s: got %v", name, err)
		}
		write("hooks/command", "echo hello", 0o755)
		os.Remove(filepath.Join(dir, "hooks/extra"))
		os.Remove(filepath.Join(dir, "README.md"))
		write("README.md", "about", 0o644)
	}
	for _, bad := range []string{"x", "x y", "x sha256:12", "x y z"} {
		if _, err := ParseLock(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
