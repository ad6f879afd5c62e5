package jobapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

const registry = "/v3/cache_registries/~"

// blob returns the announcement of a piece of a cache.
func blob(content string) fields {
	sum := sha256.Sum256([]byte(content))
	return fields{"digest": fields{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}, "file_size": len(content), "compression": "zstd"}
}

// address returns the address of an entry on the server.
func address(parts ...string) fields {
	var key []fields
	for _, value := range parts {
		value, optional := strings.CutSuffix(value, "?")
		key = append(key, fields{"value": value, "mandatory": !optional})
	}
	return fields{"target_paths": []string{"node_modules"}, "cache_key": key, "store": "server"}
}

// saveCache saves an entry with pieces, and returns how many of them were sent.
func saveCache(t *testing.T, job *servertest.Job, at fields, pieces ...string) (sent int) {
	t.Helper()
	at["blobs"] = []fields{}
	for _, piece := range pieces {
		at["blobs"] = append(at["blobs"].([]fields), blob(piece))
	}
	up := job.Put(registry+"/store", at).Want(http.StatusOK)
	for i, piece := range pieces {
		to := up.String(fmt.Sprintf("upload_instructions.%d", i))
		if to == "" {
			continue
		}
		sent++
		if resp := do(t, http.MethodPut, to, "", strings.NewReader(piece)); resp.StatusCode != http.StatusOK {
			t.Fatalf("sending %q: %s", piece, resp.Status)
		}
	}
	for range 2 { // agents repeat themselves
		job.Put(registry+"/commit", fields{"upload_id": up.String("upload_id")}).WantMessage(http.StatusOK, "The cache was saved")
	}
	return sent
}

// wantCache checks which bytes a job finds.
func wantCache(t *testing.T, job *servertest.Job, at fields, fallback bool, want string) {
	t.Helper()
	found := job.Post(registry+"/retrieve", at).Want(http.StatusOK)
	servertest.WantEqual(t, "fallback", found.At("fallback"), any(fallback))
	got := ""
	for i := range found.Len("download_instructions") {
		_, content := fetch(t, found.String(fmt.Sprintf("download_instructions.%d", i)))
		got += content
	}
	servertest.WantEqual(t, "bytes", got, want)
}

func wantNoCache(t *testing.T, job *servertest.Job, at fields) {
	t.Helper()
	job.Post(registry+"/retrieve", at).WantMessage(http.StatusNotFound, "Cache entry not found")
}

// wantCached checks how many bytes of caches the organization stores.
func (w *runningBuild) wantCached(bytes, count float64) {
	w.T.Helper()
	servertest.WantAt(w.T, w.Ada.Get("/v2/organizations/acme/usage").Want(http.StatusOK), fields{"caches.bytes": bytes, "caches.count": count})
}

// on starts a job of a new build.
func (w *runningBuild) on(build fields) *servertest.Job {
	w.T.Helper()
	build["commit"] = "HEAD"
	return w.StartJob(w.Ada.Post(servertest.HelloPath+"/builds", build).Want(http.StatusCreated).String("jobs.0.id"))
}

func TestCaches_KeepBytesOnce(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		wantNoCache(t, w.Job, address("node", "1"))
		servertest.WantEqual(t, "sent", saveCache(t, w.Job, address("node", "1"), "aaa", "bb", "aaa"), 2)
		w.wantCached(5, 2)
		wantCache(t, w.Job, address("node", "1"), false, "aaabbaaa")
		servertest.WantEqual(t, "sent for another key", saveCache(t, w.Job, address("node", "2"), "aaa", "c"), 1)
		w.wantCached(6, 3)
		again := address("node", "1")
		again["blobs"] = []fields{blob("x")}
		w.Put(registry+"/store", again).WantMessage(http.StatusConflict, "The cache has this key already; entries do not change")
		w.Post(registry+"/peek", address("node", "1")).Want(http.StatusOK)
		w.Post(registry+"/peek", address("node", "3?")).Want(http.StatusNotFound)
		w.Post(registry+"/expire", address("node", "1")).Want(http.StatusOK)
		wantNoCache(t, w.Job, address("node", "1"))
		wantCache(t, w.Job, address("node", "2"), false, "aaac")
		w.wantCached(4, 2)
	})
}

func TestCaches_FallBackToSimilarKeys(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		saveCache(t, w.Job, address("node", "linux", "1"), "old")
		w.Clock.Advance(time.Second)
		saveCache(t, w.Job, address("node", "linux", "2"), "new")
		wantCache(t, w.Job, address("node", "linux?", "3?"), true, "new")
		wantCache(t, w.Job, address("node", "linux?", "1?"), false, "old")
		wantNoCache(t, w.Job, address("node", "linux", "3"))
		wantNoCache(t, w.Job, address("node", "lin", "3?")) // a part is compared as a whole
		saveCache(t, w.Job, address("go-linux-1%"), "go")
		restore := address("go-linux-2")
		restore["restore_keys"] = []string{"go-linux-%", "go-lin"}
		wantCache(t, w.Job, restore, true, "go")
		restore["restore_keys"] = []string{"go_linux", "%"}
		wantNoCache(t, w.Job, restore)
		other := address("go-linux-1%")
		other["target_paths"] = []string{"vendor"}
		wantNoCache(t, w.Job, other)
	})
}

func TestCaches_OfPullRequestsReachNoBranch(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		main, branch := w.on(fields{"branch": "main"}), w.on(fields{"branch": "feature"})
		pull := w.on(fields{"branch": "main", "pull_request_id": 7, "pull_request_base_branch": "feature"})
		again := w.on(fields{"branch": "main", "pull_request_id": 7})
		other := w.on(fields{"branch": "main", "pull_request_id": 8})
		saveCache(t, pull, address("k"), "poison")
		for _, job := range []*servertest.Job{main, branch, other} {
			wantNoCache(t, job, address("k"))
		}
		wantCache(t, again, address("k"), false, "poison")
		saveCache(t, branch, address("b"), "of feature")
		wantCache(t, pull, address("b"), false, "of feature")
		wantNoCache(t, other, address("b"))
		wantNoCache(t, main, address("b"))
		saveCache(t, main, address("m"), "of main")
		for _, job := range []*servertest.Job{branch, pull, other} {
			wantCache(t, job, address("m"), false, "of main")
		}
		pull.Post(registry+"/expire", address("m")).Want(http.StatusOK)
		wantCache(t, main, address("m"), false, "of main")
	})
}

func TestCaches_OfTriggeredBuildsReachNoBranch(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Steps("{trigger: hello, build: {branch: main}}")
		pull := w.Ada.Post(servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "x", "pull_request_id": 7}).Want(http.StatusCreated)
		w.Steps("command: a")
		w.WantNoError(w.RunDue(t.Context()))
		made := w.Ada.Get(servertest.HelloPath + "/builds?per_page=1").Want(http.StatusOK)
		servertest.WantEqual(t, "triggered from", made.String("0.triggered_from.build_id"), pull.String("id"))
		triggered, main := w.StartJob(made.String("0.jobs.0.id")), w.on(fields{"branch": "main"})
		saveCache(t, triggered, address("k"), "poison")
		wantNoCache(t, main, address("k"))
		saveCache(t, main, address("m"), "of main")
		wantCache(t, triggered, address("m"), false, "of main")
	})
}

func TestCaches_RefuseWhatIsNotAnnounced(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		at := address("k")
		at["blobs"] = []fields{blob("right")}
		up := w.Put(registry+"/store", at).Want(http.StatusOK)
		to, commit := up.String("upload_instructions.0"), fields{"upload_id": up.String("upload_id")}
		for _, content := range []string{"wrong", "righ", "right!", strings.Repeat("right", 100_000), ""} {
			if resp := do(t, http.MethodPut, to, "", strings.NewReader(content)); resp.StatusCode != http.StatusUnprocessableEntity {
				t.Errorf("%.10q: %s", content, resp.Status)
			}
		}
		w.Put(registry+"/commit", commit).WantMessage(http.StatusUnprocessableEntity, "1 of 1 pieces of the cache did not arrive")
		wantNoCache(t, w.Job, address("k"))
		w.wantCached(0, 0)
		if resp := do(t, http.MethodPut, to+"x", "", strings.NewReader("right")); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a changed signature: %s", resp.Status)
		}
		if resp, _ := fetch(t, to); resp.StatusCode != http.StatusForbidden {
			t.Errorf("fetched at the URL for sending: %s", resp.Status)
		}
		w.Clock.Advance(7 * time.Hour)
		if resp := do(t, http.MethodPut, to, "", strings.NewReader("right")); resp.StatusCode != http.StatusForbidden {
			t.Errorf("an old URL: %s", resp.Status)
		}
		w.WantNoError(w.RunDue(t.Context()))
		var left int
		w.QueryRow(`SELECT COUNT(*) FROM cache_blobs`, &left)
		servertest.WantEqual(t, "blobs of an upload that took too long", left, 0)
	})
}

func TestCaches_RefuseWhatIsNotPossible(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		long := strings.Repeat("x", 2000)
		for name, change := range map[string]func(fields){
			"no paths":        func(a fields) { a["target_paths"] = []string{} },
			"an empty path":   func(a fields) { a["target_paths"] = []string{""} },
			"a long path":     func(a fields) { a["target_paths"] = []string{long} },
			"many paths":      func(a fields) { a["target_paths"] = strings.Split(long, "") },
			"no key":          func(a fields) { a["cache_key"] = []fields{} },
			"an empty part":   func(a fields) { a["cache_key"] = []fields{{"value": ""}} },
			"a line break":    func(a fields) { a["cache_key"] = []fields{{"value": "a\nb"}} },
			"a long key":      func(a fields) { a["cache_key"] = []fields{{"value": long}} },
			"no blobs":        func(a fields) { a["blobs"] = []fields{} },
			"many blobs":      func(a fields) { a["blobs"] = make([]fields, 1000) },
			"a huge blob":     func(a fields) { a["blobs"].([]fields)[0]["file_size"] = 1 << 40 },
			"a negative size": func(a fields) { a["blobs"].([]fields)[0]["file_size"] = -1 },
			"a path as digest": func(a fields) {
				a["blobs"].([]fields)[0]["digest"] = fields{"algorithm": "sha256", "value": "../../etc/passwd"}
			},
			"another algorithm":  func(a fields) { a["blobs"].([]fields)[0]["digest"].(fields)["algorithm"] = "md5" },
			"many restore keys":  func(a fields) { a["restore_keys"] = strings.Split(long, "") },
			"an empty fallback":  func(a fields) { a["restore_keys"] = []string{""} },
			"an unknown store":   func(a fields) { a["store"] = "s3" },
			"a long compression": func(a fields) { a["blobs"].([]fields)[0]["compression"] = long },
		} {
			at := address("k")
			at["blobs"] = []fields{blob("a")}
			change(at)
			if resp := w.Put(registry+"/store", at); resp.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
			}
		}
		w.Get("/v3/cache_registries/other").WantMessage(http.StatusNotFound, "Cache registry not found")
		w.Put(registry+"/commit", fields{"upload_id": "../x"}).Want(http.StatusNotFound)
		w.Put(registry+"/commit", fields{"upload_id": w.Build}).Want(http.StatusNotFound)
	})
}

func TestCaches_RemoveTheLeastRecentlyUsed(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Ada.Patch("/v2/organizations/acme/retention", fields{"cache_bytes": 100}).Want(http.StatusOK)
		large := address("large")
		large["blobs"] = []fields{blob(strings.Repeat("x", 101))}
		w.Put(registry+"/store", large).WantMessage(http.StatusUnprocessableEntity, "The cache has 101 bytes; the organization acme may store 100")
		// An agent that does nothing for an hour is lost, so each request is of a new job.
		main := func() *servertest.Job { return w.on(fields{"branch": "main"}) }
		pull := func() *servertest.Job { return w.on(fields{"branch": "x", "pull_request_id": 1}) }
		save := func(job *servertest.Job, key string) {
			saveCache(t, job, address(key), strings.Repeat(key, 40))
			w.Clock.Advance(time.Hour)
		}
		save(main(), "a")
		save(main(), "b")
		wantCache(t, main(), address("a"), false, strings.Repeat("a", 40)) // used last
		w.Clock.Advance(time.Hour)
		save(main(), "c")
		w.WantNoError(w.RunDue(t.Context()))
		wantNoCache(t, main(), address("b"))
		w.wantCached(80, 2)
		save(pull(), "p") // removes no cache of a branch
		w.WantNoError(w.RunDue(t.Context()))
		wantNoCache(t, pull(), address("p"))
		for _, key := range []string{"a", "c"} {
			wantCache(t, main(), address(key), false, strings.Repeat(key, 40))
		}
		w.wantCached(80, 2)
		w.Clock.Advance(31 * 24 * time.Hour)
		w.WantNoError(w.RunDue(t.Context()))
		w.wantCached(0, 0)
	})
}

func TestCaches_OfPublishedAgentsHaveNoBytes(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		servertest.WantAt(t, w.Get(registry).Want(http.StatusOK), fields{"name": "default", "store": "agent_managed"})
		at := address("node", "1")
		delete(at, "store")
		at["blobs"], at["platform"] = []fields{blob("zip")}, "linux/amd64"
		at["blobs"].([]fields)[0]["file_size"] = 1 << 40
		w.Post(registry+"/peek", at).WantMessage(http.StatusNotFound, "Cache entry not found")
		up := w.Put(registry+"/store", at).Want(http.StatusOK)
		servertest.WantEqual(t, "instructions", up.Len("upload_instructions"), 0)
		w.Put(registry+"/commit", fields{"upload_id": up.String("upload_id")}).Want(http.StatusOK)
		servertest.WantAt(t, w.Post(registry+"/retrieve", at).Want(http.StatusOK), fields{"store": "agent_managed", "fallback": false, "blobs.0.compression": "zstd", "cache_key.1.value": "1"})
		wantNoCache(t, w.Job, address("node", "1")) // the server has no bytes
		w.wantCached(0, 0)
	})
}

func TestCaches_GoWithTheirPipeline(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		saveCache(t, w.Job, address("k"), "abc")
		w.Ada.Delete(servertest.HelloPath).Want(http.StatusNoContent)
		w.WantNoError(w.RunDue(t.Context()))
		w.wantCached(0, 0)
	})
}
