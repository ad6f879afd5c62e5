package cache

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"stackyard/internal/clients/runner/environ"
)

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPack_ComesOutAsItWas(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from+"/dir/deep/run", "#!/bin/sh", 0o755)
	write(t, from+"/dir/read-only/file", "kept", 0o444)
	write(t, from+"/single", "alone", 0o600)
	if err := os.Symlink("deep/run", from+"/dir/link"); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(from+"/dir/deep/run", at, at); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(from+"/dir/read-only", 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(from+"/dir/read-only", 0o755); os.Chmod(to+"/new/dir/read-only", 0o755) })
	var first, second bytes.Buffer
	for _, archive := range []*bytes.Buffer{&first, &second} {
		if _, err := pack(t.Context(), archive, []string{from + "/dir", from + "/single"}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same files gave other bytes")
	}
	targets := []string{to + "/new/dir", to + "/other/single"}
	write(t, targets[0]+"/link/was-a-folder", "old", 0o644)
	write(t, targets[0]+"/deep/run", "longer than what replaces it", 0o644)
	write(t, targets[0]+"/stays", "stays", 0o644)
	for range 2 { // also over what it has written
		if n, err := unpack(t.Context(), bytes.NewReader(first.Bytes()), targets); err != nil || n.files != 3 {
			t.Fatalf("%d files, error %v", n.files, err)
		}
	}
	for name, want := range map[string]string{"/new/dir/deep/run": "#!/bin/sh", "/new/dir/link": "#!/bin/sh", "/new/dir/read-only/file": "kept", "/new/dir/stays": "stays", "/other/single": "alone"} {
		if got := read(t, to+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]os.FileMode{"/new/dir/deep/run": 0o755, "/new/dir/read-only": 0o555, "/new/dir/read-only/file": 0o444, "/other/single": 0o600} {
		if about, err := os.Stat(to + name); err != nil || about.Mode().Perm() != want {
			t.Errorf("%s: %v, error %v, want %v", name, about.Mode(), err, want)
		}
	}
	if about, err := os.Stat(to + "/new/dir/deep/run"); err != nil || !about.ModTime().Equal(at) {
		t.Errorf("it is of %v, error %v", about.ModTime(), err)
	}
}

// archiveOf returns an archive with entries.
func archiveOf(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	compressed, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(compressed)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len("evil"))
		}
		h.Mode = 0o777
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, "evil")
		}
	}
	w.Close()
	compressed.Close()
	return &b
}

func TestUnpack_WritesNothingOutside(t *testing.T) {
	dir, file, link := byte(tar.TypeDir), byte(tar.TypeReg), byte(tar.TypeSymlink)
	root := tar.Header{Name: "0", Typeflag: dir}
	for name, headers := range map[string][]tar.Header{
		"a parent":                   {root, {Name: "0/../evil", Typeflag: file}},
		"a parent below":             {root, {Name: "0/a/../../evil", Typeflag: file}},
		"an absolute name":           {root, {Name: "0//tmp/evil", Typeflag: file}},
		"no number":                  {root, {Name: "evil", Typeflag: file}},
		"another number":             {root, {Name: "00/evil", Typeflag: file}},
		"a number that is not there": {root, {Name: "7/evil", Typeflag: file}},
		"no folder":                  {{Name: "0/evil", Typeflag: file}},
		"the folder is a link":       {{Name: "0", Typeflag: link, Linkname: ".."}, {Name: "0/evil", Typeflag: file}},
		"the folder becomes a link":  {root, {Name: "0", Typeflag: link, Linkname: ".."}},
		"through a link":             {root, {Name: "0/up", Typeflag: link, Linkname: ".."}, {Name: "0/up/evil", Typeflag: file}},
		"through an absolute link":   {root, {Name: "0/up", Typeflag: link, Linkname: "/tmp"}, {Name: "0/up/evil", Typeflag: file}},
		"a folder through a link":    {root, {Name: "0/up", Typeflag: link, Linkname: ".."}, {Name: "0/up/evil", Typeflag: dir}},
		"a hard link":                {root, {Name: "0/evil", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a device":                   {root, {Name: "0/evil", Typeflag: tar.TypeChar}},
		"a long name":                {root, {Name: "0/" + strings.Repeat("x/", 3000) + "evil", Typeflag: file}},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			if _, err := unpack(t.Context(), archiveOf(t, headers...), []string{parent + "/target"}); err == nil {
				t.Error("no error")
			}
			if _, err := os.Lstat(parent + "/evil"); err == nil {
				t.Error("it was written")
			}
		})
	}
	outside := t.TempDir() + "/file"
	write(t, outside, "untouched", 0o644)
	target := t.TempDir() + "/target"
	write(t, target+"/keep", "x", 0o644)
	if err := os.Symlink(outside, target+"/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(t.Context(), archiveOf(t, root, tar.Header{Name: "0/a", Typeflag: file}), []string{target}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, outside) + read(t, target+"/a"); got != "untouchedevil" {
		t.Errorf("a link that was there was followed: %q", got)
	}
}

func TestUnpack_FailsWithWhatIsNoArchive(t *testing.T) {
	var packed bytes.Buffer
	dir := t.TempDir()
	write(t, dir+"/in/file", strings.Repeat("text", 1000), 0o644)
	if _, err := pack(t.Context(), &packed, []string{dir + "/in"}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"text": []byte("hello"), "cut": packed.Bytes()[:packed.Len()/2]} {
		if _, err := unpack(t.Context(), bytes.NewReader(content), []string{dir + "/out"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSplitter_CutsPieces(t *testing.T) {
	var whole bytes.Buffer
	s := &splitter{to: &whole, size: 4}
	for _, part := range []string{"ab", "cdefg", "", "h", "i"} {
		io.WriteString(s, part)
	}
	var sizes []int64
	for _, b := range s.end() {
		sizes = append(sizes, b.Size)
	}
	if len(sizes) != 3 || sizes[0] != 4 || sizes[1] != 4 || sizes[2] != 1 || whole.String() != "abcdefghi" || s.total != 9 {
		t.Errorf("sizes %v of %q", sizes, whole.String())
	}
}

func TestResolve_RefusesWholeFolders(t *testing.T) {
	c := &Cache{Dir: "/work/repo", Home: "/home/ada"}
	for _, paths := range [][]string{nil, {"."}, {"/"}, {"~"}, {"~/"}, {".."}, {"/home"}, {"../../home/ada"}, {"a", "a/b"}, {"a/b", "./a"}, {"a", "a"}} {
		if got, err := c.resolve(paths); err == nil {
			t.Errorf("%q is %q", paths, got)
		}
	}
	got, err := c.resolve([]string{"a/b", "~/.cache/x", "/var/cache/y", "../sibling", "a/bc"})
	if want := "/work/repo/a/b /home/ada/.cache/x /var/cache/y /work/sibling /work/repo/a/bc"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRead_ReturnsTheCachesOfAFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/lock", "1", 0o644)
	write(t, dir+"/.buildkite/cache.yml", `
caches:
  - name: node
    cache_key: [node, {env: V}, {agent: branch, fallback_limit: true}, {checksum: [lock, "*.none"]}]
    target_paths: [node_modules]
  - name: go
    cache_key: [go]
    target_paths: [~/go]
`, 0o644)
	env := environ.Environment{"V": "22", "SERVICE_BRANCH": "main"}
	all, err := Read("", nil, dir, env)
	if err != nil || len(all) != 2 || all[1].Paths[0] != "~/go" {
		t.Fatalf("%v, %v", all, err)
	}
	sum, err := Checksum(dir, []string{"lock"})
	if err != nil {
		t.Fatal(err)
	}
	key := all[0].Key
	if keyText(key) != "node 22 main "+sum || !key[2].Mandatory || key[3].Mandatory {
		t.Errorf("key %v", key)
	}
	write(t, dir+"/lock", "2", 0o644)
	if other, _ := Checksum(dir, []string{"lock"}); other == sum {
		t.Error("another content has the same checksum")
	}
	if _, err := Read("", []string{"go", "rust"}, dir, env); err == nil || !strings.Contains(err.Error(), `no cache "rust"; the file has node, go`) {
		t.Errorf("error %v", err)
	}
	if _, err := Read("", nil, t.TempDir(), env); err == nil || !strings.Contains(err.Error(), ".stackyard/cache.yml") {
		t.Errorf("error %v", err)
	}
	for _, text := range []string{"caches: []", "caches: [{name: a}]", "caches: [{name: a, target_paths: [x], cache_key: [{agent: moon}]}]", "caches: [{name: a, target_paths: [x], cache_key: [{env: NONE}]}]", "caches: 7", "\t"} {
		write(t, dir+"/bad.yml", text, 0o644)
		if _, err := Read("bad.yml", nil, dir, env); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
