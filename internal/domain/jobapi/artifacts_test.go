package jobapi_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A file is a file that a job uploads.
type file struct{ path, kind, content string }

// announced returns the announcement of the file.
func (f file) announced() fields {
	one, two := sha1.Sum([]byte(f.content)), sha256.Sum256([]byte(f.content))
	return fields{
		"id": "", "job_id": "", "glob_path": "", "created_at": "0001-01-01T00:00:00Z", "absolute_path": "/tmp/" + f.path,
		"path": f.path, "file_size": len(f.content), "content_type": f.kind,
		"sha1sum": hex.EncodeToString(one[:]), "sha256sum": hex.EncodeToString(two[:]),
	}
}

// batch returns the announcement of files.
func batch(files ...file) fields {
	announced := make([]fields, len(files))
	for i, f := range files {
		announced[i] = f.announced()
	}
	return fields{"id": core.NewID(), "upload_destination": "", "artifacts": announced}
}

// send sends the content of a file as agents do: with the form of the response to the batch.
func send(t testing.TB, answer *response, path, content string) *http.Response {
	t.Helper()
	var instructions struct {
		Instructions struct {
			Action struct {
				URL, Method, Path string
				FileInput         string `json:"file_input"`
			}
			Data map[string]string
		} `json:"upload_instructions"`
	}
	answer.JSON(&instructions)
	action := instructions.Instructions.Action
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, value := range instructions.Instructions.Data {
		w.WriteField(name, strings.ReplaceAll(value, "${artifact:path}", path))
	}
	part, err := w.CreateFormFile(action.FileInput, path)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(part, content)
	w.Close()
	to, err := url.Parse(action.URL)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = action.Path
	return do(t, action.Method, to.String(), w.FormDataContentType(), &form)
}

// do sends a request without a token.
func do(t testing.TB, method, to, kind string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, body)
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// fetch returns the response of a URL and its body.
func fetch(t testing.TB, address string) (*http.Response, string) {
	t.Helper()
	resp := do(t, http.MethodGet, address, "", nil)
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(content)
}

// upload uploads files for a job and returns the ids of the artifacts.
func (w *runningBuild) upload(job *servertest.Job, files ...file) []string {
	w.T.Helper()
	answer := job.Post(job.Path("/artifacts"), batch(files...)).Want(http.StatusOK)
	var done []fields
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = answer.String(fmt.Sprintf("artifact_ids.%d", i))
		if resp := send(w.T, answer, f.path, f.content); resp.StatusCode != http.StatusNoContent {
			w.T.Fatalf("sending %s: %s", f.path, resp.Status)
		}
		done = append(done, fields{"id": ids[i], "state": "finished"})
	}
	job.Put(job.Path("/artifacts"), fields{"artifacts": done}).Want(http.StatusOK)
	return ids
}

func TestArtifacts_GoInAndComeOut(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		files := []file{{"log/a b.txt", "text/plain", "hello"}, {"empty", "", ""}, {"ümläut&.bin", "application/zip", strings.Repeat("x", 100_000)}}
		ids := w.upload(w.Job, files...)
		for i, f := range files {
			servertest.WantAt(t, w.Ada.Get(servertest.HelloPath+"/builds/1/jobs/"+w.Job.ID+"/artifacts/"+ids[i]).Want(http.StatusOK), fields{"state": "finished", "path": f.path, "file_size": len(f.content)})
			redirect := w.Ada.Get("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + ids[i] + "/download").Want(http.StatusFound)
			servertest.WantEqual(t, "Location", redirect.Header.Get("Location"), redirect.String("url"))
			resp, content := fetch(t, redirect.String("url"))
			servertest.WantEqual(t, "status", resp.StatusCode, http.StatusOK)
			servertest.WantEqual(t, f.path, content, f.content)
		}
		found := w.Get("/v3/builds/" + w.Build + "/artifacts/search?state=finished&query=log/*").Want(http.StatusOK)
		servertest.WantEqual(t, "found", found.Len(""), 1)
		servertest.WantAt(t, found, fields{"0.id": ids[0], "0.job_id": w.Job.ID, "0.path": "log/a b.txt", "0.file_size": 5, "0.sha256sum": files[0].announced()["sha256sum"], "0.created_at": w.Clock.Now().Format("2006-01-02T15:04:05.000Z")})
		if _, content := fetch(t, found.String("0.url")); content != "hello" {
			t.Errorf("got %q", content)
		}
	})
}

func TestArtifacts_HaveTheKindThatIsGivenOrSuggested(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		for _, c := range []struct{ path, given, want string }{
			{"a.txt", "", "text/plain"},
			{"b/LOG.LOG", "", "text/plain"},
			{"c.html", "", "text/html"},
			{"d.html", "text/plain; charset=utf-16", "text/plain; charset=utf-16"},
			{"e", "", "application/octet-stream"},
			{"f.bin", "nonsense; ;", "application/octet-stream"},
		} {
			job := w.Path("/artifacts")
			id := w.Post(job, batch(file{c.path, c.given, "x"})).Want(http.StatusOK).String("artifact_ids.0")
			servertest.WantAt(t, w.Ada.Get("/v2/organizations/acme/jobs/"+w.Job.ID+"/artifacts/"+id), fields{"mime_type": c.want})
		}
	})
}

func TestArtifacts_OfABatchAreNotedOnce(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		b := batch(file{"a", "", "1"}, file{"b", "", "22"})
		first := w.Post(w.Path("/artifacts"), b).Want(http.StatusOK)
		again := w.Post(w.Path("/artifacts"), b).Want(http.StatusOK)
		servertest.WantEqual(t, "ids", again.String("artifact_ids"), first.String("artifact_ids"))
		servertest.WantEqual(t, "ids", first.Len("artifact_ids"), 2)
		servertest.WantEqual(t, "artifacts", w.Ada.Get(servertest.HelloPath+"/builds/1/artifacts").Len(""), 2)
		other := batch(file{"c", "", "1"})
		other["id"] = b["id"]
		w.Post(w.Path("/artifacts"), other).WantMessage(http.StatusUnprocessableEntity, "Another batch of artifacts has this id")
	})
}

func TestArtifacts_KeepNothingButWhatWasAnnounced(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		answer := w.Post(w.Path("/artifacts"), batch(file{"a", "", "right"})).Want(http.StatusOK)
		for name, c := range map[string]struct {
			path, content string
			want          int
		}{
			"another checksum": {"a", "wrong", http.StatusUnprocessableEntity},
			"too short":        {"a", "righ", http.StatusUnprocessableEntity},
			"too long":         {"a", "right!", http.StatusUnprocessableEntity},
			"much too long":    {"a", strings.Repeat("right", 100_000), http.StatusUnprocessableEntity},
			"another path":     {"b", "right", http.StatusNotFound},
		} {
			if resp := send(t, answer, c.path, c.content); resp.StatusCode != c.want {
				t.Errorf("%s: %s", name, resp.Status)
			}
		}
		id := answer.String("artifact_ids.0")
		finish := fields{"artifacts": []fields{{"id": id, "state": "finished"}}}
		w.Put(w.Path("/artifacts"), finish).WantMessage(http.StatusUnprocessableEntity, "The bytes of a did not arrive")
		w.Ada.Get("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + id + "/download").Want(http.StatusNotFound)
		servertest.WantEqual(t, "right", send(t, answer, "a", "right").StatusCode, http.StatusNoContent)
		for range 2 {
			w.Put(w.Path("/artifacts"), finish).Want(http.StatusOK)
		}
		servertest.WantEqual(t, "once finished", send(t, answer, "a", "right").StatusCode, http.StatusUnprocessableEntity)
	})
}

func TestArtifacts_AreCheckedByTheGivenChecksum(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		for name, change := range map[string]func(fields){
			"sha1 alone": func(a fields) { a["sha256sum"] = "" },
			"in capitals": func(a fields) {
				a["sha256sum"] = strings.ToUpper(a["sha256sum"].(string))
			},
		} {
			b := batch(file{"a", "", "right"})
			change(b["artifacts"].([]fields)[0])
			answer := w.Post(w.Path("/artifacts"), b).Want(http.StatusOK)
			servertest.WantEqual(t, name, send(t, answer, "a", "wrong").StatusCode, http.StatusUnprocessableEntity)
			servertest.WantEqual(t, name, send(t, answer, "a", "right").StatusCode, http.StatusNoContent)
		}
		b := batch(file{"a", "", "right"})
		b["artifacts"].([]fields)[0]["sha256sum"], b["artifacts"].([]fields)[0]["sha1sum"] = "", ""
		answer := w.Post(w.Path("/artifacts"), b).Want(http.StatusOK)
		servertest.WantEqual(t, "not given", send(t, answer, "a", "wrong").StatusCode, http.StatusNoContent)
	})
}

func TestArtifacts_AddressesAreSignedAndExpire(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		id := w.upload(w.Job, file{"a", "", "hello"})[0]
		other := w.upload(w.Job, file{"b", "", "other"})[0]
		address := w.Ada.Get("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + id + "/download").String("url")
		for name, changed := range map[string]string{
			"another artifact": strings.Replace(address, id, other, 1),
			"another time":     strings.Replace(address, "expires=", "expires=1", 1),
			"no signature":     strings.Split(address, "?")[0],
			"a shorter one":    address[:len(address)-1],
		} {
			if resp, _ := fetch(t, changed); resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s", name, resp.Status)
			}
		}
		w.Clock.Advance(59 * time.Second)
		resp, _ := fetch(t, address)
		servertest.WantEqual(t, "in time", resp.StatusCode, http.StatusOK)
		w.Clock.Advance(2 * time.Second)
		resp, body := fetch(t, address)
		servertest.WantEqual(t, "later", resp.StatusCode, http.StatusForbidden)
		if !strings.Contains(body, "has expired") {
			t.Errorf("got %s", body)
		}
		answer := w.Post(w.Path("/artifacts"), batch(file{"c", "", "hello"})).Want(http.StatusOK)
		w.Clock.Advance(2*time.Hour + time.Second)
		servertest.WantEqual(t, "a late file", send(t, answer, "c", "hello").StatusCode, http.StatusForbidden)
	})
}

func TestArtifacts_HaveAddressesThatTheAgentReaches(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.upload(w.Job, file{"a", "", "hello"})
		local := strings.Replace(w.URL, "127.0.0.1", "localhost", 1)
		for endpoint, base := range map[string]string{
			"":                        w.URL,
			local + "/v3":             local,
			local + "/prefix/v3":      local + "/prefix",
			local:                     w.URL, // not an endpoint
			"localhost/v3":            w.URL,
			"javascript:alert(1)//v3": w.URL,
		} {
			agent := w.With("Stackyard-Endpoint", endpoint)
			for what, address := range map[string]string{
				"to send":  agent.Post(w.Path("/artifacts"), batch(file{"b", "", "hello"})).Want(http.StatusOK).String("upload_instructions.action.url"),
				"to fetch": agent.Get("/v3/builds/" + w.Build + "/artifacts/search?query=a").Want(http.StatusOK).String("0.url"),
			} {
				if !strings.HasPrefix(address, base+"/artifact") {
					t.Errorf("who reaches the server by %q got %s %s", endpoint, what, address)
				}
			}
		}
		found := w.With("Stackyard-Endpoint", local+"/v3").Get("/v3/builds/" + w.Build + "/artifacts/search?query=a")
		if _, content := fetch(t, found.String("0.url")); content != "hello" {
			t.Errorf("got %q", content)
		}
	})
}

func TestArtifacts_AreNotAddedToWhenTheJobHasEnded(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		answer := w.Post(w.Path("/artifacts"), batch(file{"a", "", "hello"})).Want(http.StatusOK)
		w.Finish("0")
		servertest.WantEqual(t, "a late file", send(t, answer, "a", "hello").StatusCode, http.StatusForbidden)
	})
}

func TestArtifacts_CanBeReadInRanges(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.upload(w.Job, file{"a", "text/plain", "0123456789"})
		address := w.Get("/v3/builds/" + w.Build + "/artifacts/search").String("0.url")
		for asked, want := range map[string]string{"bytes=2-4": "234", "bytes=-3": "789", "bytes=8-": "89"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Range", asked)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			servertest.WantEqual(t, asked, fmt.Sprint(resp.StatusCode, string(got)), fmt.Sprint(http.StatusPartialContent, want))
		}
		head := do(t, http.MethodHead, address, "", nil)
		servertest.WantEqual(t, "length", head.ContentLength, 10)
	})
}

func TestArtifacts_AreFoundWithThePatternsTheyWereUploadedWith(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.upload(w.Job, file{"log/a.txt", "", "1"}, file{"log/deep/down/b.txt", "", "2"}, file{"log/c.zip", "", "3"}, file{"catalog/d.txt", "", "4"})
		for pattern, want := range map[string]int{"log/**/*": 3, "log/**/*.txt": 2, "**/*.txt": 3, "log/**/b.txt": 1, "log/**/own/b.txt": 0, "**": 4} {
			found := w.Get("/v3/builds/" + w.Build + "/artifacts/search?query=" + url.QueryEscape(pattern)).Want(http.StatusOK)
			servertest.WantEqual(t, pattern, found.Len(""), want)
		}
	})
}

func TestArtifacts_DoNotRunOnTheServersOrigin(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.upload(w.Job, file{"x/page.html", "text/html", "<script>steal()</script>"}, file{"x/a \"b\".pdf", "application/pdf", "%PDF"}, file{"x/odd", "text/html\r\nX: y", "?"}, file{"x/a.js", "text/javascript", "steal()"}, file{"x/b.js", "Application/X-JavaScript; charset=utf-8", "steal()"}, file{"x/c.css", "text/css", "*{}"})
		for path, want := range map[string]string{
			"x/page.html": `text/html; charset=utf-8 inline; filename=page.html`,
			`x/a "b".pdf`: `application/pdf attachment; filename="a \"b\".pdf"`,
			"x/odd":       `application/octet-stream attachment; filename=odd`,
			"x/a.js":      `text/plain; charset=utf-8 inline; filename=a.js`, // no page can use it as a script
			"x/b.js":      `text/plain; charset=utf-8 inline; filename=b.js`,
			"x/c.css":     `text/plain; charset=utf-8 inline; filename=c.css`,
		} {
			found := w.Get("/v3/builds/" + w.Build + "/artifacts/search?query=" + url.QueryEscape(path)).Want(http.StatusOK)
			resp, _ := fetch(t, found.String("0.url"))
			h := resp.Header
			servertest.WantEqual(t, path, h.Get("Content-Type")+" "+h.Get("Content-Disposition"), want)
			servertest.WantEqual(t, "nosniff", h.Get("X-Content-Type-Options"), "nosniff")
			if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox; default-src 'none'") || strings.Contains(csp, "allow-") || strings.Contains(csp, "script-src") {
				t.Errorf("the policy is %s", csp)
			}
		}
	})
}

func TestArtifacts_GoElsewhere(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		b := batch(file{"a.txt", "text/plain", "hello"})
		b["upload_destination"] = "s3://bucket/prefix"
		b["artifacts"].([]fields)[0]["url"] = "https://bucket.test/prefix/a.txt"
		answer := w.Post(w.Path("/artifacts"), b).Want(http.StatusOK)
		servertest.WantEqual(t, "instructions", answer.Has("upload_instructions"), false)
		id := answer.String("artifact_ids.0")
		w.Put(w.Path("/artifacts"), fields{"artifacts": []fields{{"id": id, "state": "finished"}}}).Want(http.StatusOK)
		servertest.WantAt(t, w.Get("/v3/builds/"+w.Build+"/artifacts/search"), fields{"0.url": "https://bucket.test/prefix/a.txt", "0.upload_destination": "s3://bucket/prefix"})
		servertest.WantEqual(t, "Location", w.Ada.Get("/v2/organizations/acme/jobs/"+w.Job.ID+"/artifacts/"+id+"/download").Want(http.StatusFound).Header.Get("Location"), "https://bucket.test/prefix/a.txt")
	})
}

func TestArtifacts_ReportProblems(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		for name, change := range map[string]func(b, a fields){
			"id":         func(b, a fields) { b["id"] = "x" },
			"path":       func(b, a fields) { a["path"] = "" },
			"folder":     func(b, a fields) { a["path"] = "a/" },
			"long path":  func(b, a fields) { a["path"] = strings.Repeat("x", 1025) },
			"odd path":   func(b, a fields) { a["path"] = "a\nb" },
			"size":       func(b, a fields) { a["file_size"] = -1 },
			"large":      func(b, a fields) { a["file_size"] = int64(10<<30) + 1 },
			"sha1":       func(b, a fields) { a["sha1sum"] = "x" },
			"sha256":     func(b, a fields) { a["sha256sum"] = strings.Repeat("0", 40) },
			"twice":      func(b, a fields) { b["artifacts"] = []fields{a, a} },
			"many":       func(b, a fields) { b["artifacts"] = make([]fields, 101) },
			"long place": func(b, a fields) { b["upload_destination"] = strings.Repeat("x", 3000) },
		} {
			b := batch(file{"a", "", "x"})
			change(b, b["artifacts"].([]fields)[0])
			if resp := w.Post(w.Path("/artifacts"), b); resp.Status != http.StatusUnprocessableEntity || resp.String("message") == "" {
				t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
			}
		}
		w.Put(w.Path("/artifacts"), fields{"artifacts": []fields{{"id": core.NewID(), "state": "finished"}}}).Want(http.StatusNotFound)
		id := w.Post(w.Path("/artifacts"), batch(file{"a", "", "x"})).String("artifact_ids.0")
		w.Put(w.Path("/artifacts"), fields{"artifacts": []fields{{"id": id, "state": "deleted"}}}).Want(http.StatusUnprocessableEntity)
		w.Put(w.Path("/artifacts"), fields{"artifacts": []fields{{"id": id, "state": "error"}}}).Want(http.StatusOK)
		servertest.WantAt(t, w.Ada.Get(servertest.HelloPath+"/builds/1/artifacts"), fields{"0.state": "error"})
		w.Get("/v3/builds/" + w.Build + "/artifacts/search?state=odd").Want(http.StatusUnprocessableEntity)
		w.Get("/v3/builds/" + w.Build + "/artifacts/search?include_duplicates=perhaps").Want(http.StatusBadRequest)
	})
}

func TestForm_ReportsProblems(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		to := w.URL + "/artifacts/form"
		form := func(write func(*multipart.Writer)) int {
			var b bytes.Buffer
			m := multipart.NewWriter(&b)
			write(m)
			m.Close()
			return do(t, http.MethodPost, to, m.FormDataContentType(), &b).StatusCode
		}
		servertest.WantEqual(t, "no form", do(t, http.MethodPost, to, "text/plain", strings.NewReader("x")).StatusCode, http.StatusBadRequest)
		servertest.WantEqual(t, "no file", form(func(m *multipart.Writer) { m.WriteField("job", "x") }), http.StatusBadRequest)
		servertest.WantEqual(t, "not signed", form(func(m *multipart.Writer) { m.CreateFormFile("file", "a") }), http.StatusForbidden)
		servertest.WantEqual(t, "a long field", form(func(m *multipart.Writer) { m.WriteField("job", strings.Repeat("x", 9000)) }), http.StatusRequestEntityTooLarge)
		servertest.WantEqual(t, "many fields", form(func(m *multipart.Writer) {
			for range 50 {
				m.WriteField("job", "x")
			}
		}), http.StatusBadRequest)
		servertest.WantEqual(t, "cut off", do(t, http.MethodPost, to, "multipart/form-data; boundary=x", strings.NewReader("--x\r\nContent-Disp")).StatusCode, http.StatusBadRequest)
	})
}

func TestArtifacts_LoseTheirBytesWhenDeleted(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		id := w.upload(w.Job, file{"a", "", "hello"})[0]
		address := w.Get("/v3/builds/" + w.Build + "/artifacts/search").String("0.url")
		servertest.WantEqual(t, "objects", w.objects(), 2) // with its checksums
		w.Ada.Delete("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + id).Want(http.StatusNoContent)
		resp, _ := fetch(t, address)
		servertest.WantEqual(t, "status", resp.StatusCode, http.StatusNotFound)
		servertest.WantEqual(t, "found", w.Get("/v3/builds/"+w.Build+"/artifacts/search").Len(""), 0)
		w.Clock.Advance(time.Minute)
		w.WantNoError(w.RunDue(t.Context()))
		servertest.WantEqual(t, "objects", w.objects(), 0)
	})
}

func TestArtifacts_LoseTheirBytesWithTheirBuild(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.upload(w.Job, file{"a", "", "hello"}, file{"b", "", "hello"})
		w.Finish("0")
		w.Apply("organizations: [{slug: acme, limits: {build_retention_days: 1}}]")
		w.Clock.Advance(25 * time.Hour)
		w.WantNoError(w.RunDue(t.Context()))
		w.Clock.Advance(time.Minute)
		w.WantNoError(w.RunDue(t.Context()))
		servertest.WantEqual(t, "objects", w.objects(), 0)
	})
}

// objects counts the blobs of the organization.
func (w *runningBuild) objects() (n int) {
	w.T.Helper()
	for _, err := range w.Blobs.List(w.T.Context(), w.OrgID) {
		w.WantNoError(err)
		n++
	}
	return n
}

// A download returns the stored bytes, or an error when they are damaged or missing.
func TestArtifacts_WhoseBytesAreDamagedOrMissingSaySo(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		small, large := strings.Repeat("0123456789", 1000), strings.Repeat("0123456789abcdef", 6<<20/16)
		for _, f := range []file{{"small", "text/plain", small}, {"large", "text/plain", large}} {
			id := w.upload(w.Job, f)[0]
			address := w.Get("/v3/builds/" + w.Build + "/artifacts/search?query=" + f.path).String("0.url")
			var key string
			for o, err := range w.Blobs.List(t.Context(), w.OrgID) {
				w.WantNoError(err)
				if strings.HasSuffix(o.Key, id+"/1") {
					key = o.Key
				}
			}
			put := func(content string) {
				w.WantNoError(w.Blobs.Put(t.Context(), key, strings.NewReader(content), int64(len(content))))
			}
			// wantGone checks that downloads fail with a message.
			wantGone := func(what string) {
				t.Helper()
				resp, body := fetch(t, address)
				servertest.WantEqual(t, f.path+" "+what+": status", resp.StatusCode, http.StatusGone)
				if want := "The stored bytes of the artifact " + f.path + " are " + what; !strings.Contains(body, want) {
					t.Errorf("the answer is %s, want %s", body, want)
				}
			}
			put("X" + f.content[1:])
			wantGone("damaged: they do not match their checksum")
			put("X")
			wantGone("damaged")
			w.WantNoError(w.Blobs.Delete(t.Context(), key))
			wantGone("missing")
			put(f.content)
			if _, body := fetch(t, address); body != f.content {
				t.Errorf("%s, as it was: %d bytes", f.path, len(body))
			}
			// A part of a large file is sent before the damage is found; then the connection breaks.
			middle := len(f.content) / 2
			put(f.content[:middle] + "X" + f.content[middle+1:])
			if f.path == "small" {
				wantGone("damaged")
				continue
			}
			resp, err := http.Get(address)
			w.WantNoError(err)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil || len(got) > middle || string(got) != f.content[:len(got)] {
				t.Errorf("of a file with another byte in its middle %d bytes came: %v", len(got), err)
			}
		}
	})
}

func TestArtifacts_AreFetchedFromTheContentURL(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const content = "http://content.test"
		s := servertest.Start(t, d, func(p *server.Parts) { p.Content = content })
		s.Apply(servertest.World)
		w := &runningBuild{s.RunBuild(t)}
		id := w.upload(w.Job, file{"a.txt", "text/plain", "hello"})[0]
		// get sends a request for a URL to the server, whatever the host of the URL.
		get := func(address string) (*http.Response, string) {
			t.Helper()
			u, err := url.Parse(address)
			w.WantNoError(err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+u.RequestURI(), nil)
			w.WantNoError(err)
			req.Host = u.Host
			resp, err := http.DefaultTransport.RoundTrip(req) // without following redirects
			w.WantNoError(err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			w.WantNoError(err)
			return resp, string(body)
		}
		address := w.Ada.Get("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + id + "/download").Want(http.StatusFound).String("url")
		if !strings.HasPrefix(address, content+"/artifacts/"+id+"?") {
			t.Fatalf("the artifact is at %s", address)
		}
		resp, body := get(address)
		servertest.WantEqual(t, "fetched", fmt.Sprint(resp.StatusCode, body), "200hello")
		// The origin of the pages serves no content, and the content origin nothing else.
		resp, _ = get(strings.Replace(address, content, s.URL, 1))
		servertest.WantEqual(t, "on the other origin", fmt.Sprint(resp.StatusCode, resp.Header.Get("Location")), fmt.Sprint(http.StatusFound, address))
		for _, path := range []string{"/", "/login", "/v2/organizations/acme", "/assets/build.js", "/openapi.json", "/nowhere"} {
			if resp, body := get(content + path); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s, %s", path, resp.Status, body)
			}
		}
		// An agent fetches from the endpoint at which it reaches the server.
		found := w.With("Stackyard-Endpoint", "http://inside.test/v3").Get("/v3/builds/" + w.Build + "/artifacts/search").Want(http.StatusOK).String("0.url")
		if !strings.HasPrefix(found, "http://inside.test/artifacts/") {
			t.Errorf("an agent is led to %s", found)
		}
		resp, body = get(found)
		servertest.WantEqual(t, "fetched by an agent", fmt.Sprint(resp.StatusCode, body), "200hello")
	})
}
