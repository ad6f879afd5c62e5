package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/clients/runner/api"
)

// files creates a directory with files. "name -> target" creates a link.
func files(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte("content of "+name), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind_FindsWhatMatches(t *testing.T) {
	dir := files(t, "a.txt", "b.log", "out/c.txt", "out/deep/d.txt", "out/deep/.hidden.txt", "out/[x].txt", "link.txt -> a.txt", "loop -> .", "dangling.txt -> nothing")
	tests := map[string]string{
		"a.txt":                     "a.txt",
		"./a.txt":                   "a.txt",
		"*.txt":                     "a.txt link.txt",
		"**/*.txt":                  "a.txt link.txt out/[x].txt out/c.txt out/deep/.hidden.txt out/deep/d.txt",
		"out/**/*":                  "out/[x].txt out/c.txt out/deep/.hidden.txt out/deep/d.txt",
		"out/*/d.txt; *.log;a.txt":  "a.txt b.log out/deep/d.txt",
		"a.txt;a.txt":               "a.txt",
		"*.{log,txt}":               "a.txt b.log link.txt",
		"out/../a.txt":              "a.txt",
		"out/\\[x\\].txt":           "out/[x].txt",
		"out":                       "",
		"nothing/**;":               "",
		" ; ":                       "",
		filepath.Join(dir, "*.log"): "b.log",
		filepath.Join(dir, "a.txt"): "a.txt",
	}
	for patterns, want := range tests {
		found, err := Find(dir, patterns)
		var names []string
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", patterns, got, err, want)
		}
	}
	if _, err := Find(dir, "[a"); err == nil {
		t.Error("a pattern that is wrong was taken")
	}
}

// A store is a server that stores files.
type store struct {
	*httptest.Server
	mu      sync.Mutex
	created []api.Artifact
	batches int
	files   map[string]string
	states  map[string]string
	fail    map[string][]int // statuses of the first responses, by path
}

func newStore(t *testing.T) *store {
	s := &store{files: map[string]string{}, states: map[string]string{}, fail: map[string][]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v3/jobs/j/artifacts":
		var body struct{ Artifacts []api.Artifact }
		json.NewDecoder(r.Body).Decode(&body)
		ids := []string{}
		for _, a := range body.Artifacts {
			ids = append(ids, "id of "+a.Path)
		}
		s.created = append(s.created, body.Artifacts...)
		s.batches++
		json.NewEncoder(w).Encode(map[string]any{"artifact_ids": ids, "upload_instructions": map[string]any{
			"action": map[string]string{"url": s.URL + "/x", "method": "POST", "path": "/form", "file_input": "file"}, "data": map[string]string{"path": "${artifact:path}"}}})
	case r.Method == http.MethodPut:
		var body struct{ Artifacts []api.ArtifactState }
		json.NewDecoder(r.Body).Decode(&body)
		for _, a := range body.Artifacts {
			s.states[a.ID] = a.State
		}
	case r.URL.Path == "/form":
		path := r.FormValue("path")
		if status := s.failure(path); status > 0 {
			w.WriteHeader(status)
			return
		}
		file, _, _ := r.FormFile("file")
		text, _ := io.ReadAll(file)
		s.files[path] = string(text)
	default:
		path := strings.TrimPrefix(r.URL.Path, "/files/")
		if status := s.failure(path); status == http.StatusOK {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "cut off")
			return
		} else if status > 0 {
			w.WriteHeader(status)
			return
		}
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		io.WriteString(w, s.files[path])
	}
}

// failure returns the next failure status, or 0.
func (s *store) failure(path string) int {
	if len(s.fail[path]) == 0 {
		return 0
	}
	status := s.fail[path][0]
	s.fail[path] = s.fail[path][1:]
	return status
}

func (s *store) upload(t *testing.T, dir, patterns string) error {
	return Upload{API: api.New(s.URL+"/v3", "t", "1"), JobID: "j", Dir: dir, Logf: t.Logf}.Run(t.Context(), patterns)
}

func TestUpload_SendsFilesWithWhatIsKnownOfThem(t *testing.T) {
	dir := files(t, "out/report.html", "out/data.unknown")
	elsewhere := files(t, "e.txt")
	s := newStore(t)
	if err := s.upload(t, dir, "out/*;"+elsewhere+"/*"); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("content of out/report.html"))
	for _, a := range s.created {
		if a.Path == "out/report.html" && (a.Size != 26 || a.SHA256 != hex.EncodeToString(sum[:]) || len(a.SHA1) != 40 || a.ContentType != "text/html; charset=utf-8" || a.AbsolutePath != filepath.Join(dir, "out", "report.html")) {
			t.Errorf("announced %+v", a)
		}
	}
	want := map[string]string{"out/report.html": "content of out/report.html", "out/data.unknown": "content of out/data.unknown", strings.TrimPrefix(elsewhere, "/") + "/e.txt": "content of e.txt"}
	for path, text := range want {
		if s.files[path] != text || s.states["id of "+path] != "finished" {
			t.Errorf("%s: %q, state %s", path, s.files[path], s.states["id of "+path])
		}
	}
}

func TestUpload_AnnouncesManyFilesInBatches(t *testing.T) {
	var names []string
	for i := range 70 {
		names = append(names, fmt.Sprintf("f%d", i))
	}
	s := newStore(t)
	if err := s.upload(t, files(t, names...), "*"); err != nil {
		t.Fatal(err)
	}
	if s.batches != 3 || len(s.files) != 70 || len(s.states) != 70 {
		t.Errorf("%d batches, %d files, %d states", s.batches, len(s.files), len(s.states))
	}
}

func TestUpload_SendsAgainWhatFailed(t *testing.T) {
	s := newStore(t)
	s.fail["a"] = []int{503}
	s.fail["b"] = []int{403}
	err := s.upload(t, files(t, "a", "b"), "*")
	if err == nil || !strings.Contains(err.Error(), "send b: status 403") {
		t.Errorf("got %v", err)
	}
	if s.states["id of a"] != "finished" || s.states["id of b"] != "error" {
		t.Errorf("states %v", s.states)
	}
}

func (s *store) artifact(path, text string) api.Artifact {
	s.files[path] = text
	sum := sha256.Sum256([]byte(text))
	return api.Artifact{Path: path, URL: s.URL + "/files/" + path, SHA256: hex.EncodeToString(sum[:])}
}

func TestDownload_GetsFilesIntoFolders(t *testing.T) {
	s := newStore(t)
	dir := t.TempDir()
	d := Download{API: api.New(s.URL+"/v3", "t", "1"), Dir: filepath.Join(dir, "new"), Logf: t.Logf}
	s.fail["a/broken"] = []int{200, 503}
	if err := d.Run(t.Context(), []api.Artifact{s.artifact("a/b.txt", "text"), s.artifact("a/broken", "mended"), s.artifact("empty", "")}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a/b.txt": "text", "a/broken": "mended", "empty": ""} {
		if got, err := os.ReadFile(filepath.Join(d.Dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestDownload_RefusesBytesThatAreNotTheArtifacts(t *testing.T) {
	s := newStore(t)
	d := Download{API: api.New(s.URL+"/v3", "t", "1"), Dir: t.TempDir(), Logf: t.Logf}
	a := s.artifact("a", "text")
	s.files["a"] = "changed"
	if err := d.Run(t.Context(), []api.Artifact{a}); err == nil || !strings.Contains(err.Error(), "a has the checksum") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(d.Dir); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

func TestLocal_StaysBelowTheFolder(t *testing.T) {
	tests := map[string]string{"a/b": "a/b", "../../etc/passwd": "etc/passwd", "/etc/passwd": "etc/passwd", "a/../../b": "b", "..": "", "./a": "a"}
	for name, want := range tests {
		if got := local(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
