package web_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestPictures_ShowStepsAndTimes(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: "One <b>", command: make one, parallelism: 300}, {command: make secret, key: two}, wait, {label: Three, command: make three}]`)
		j := r.take(s.Register(t, nil), "One <b>")
		s.Clock.Advance(time.Minute)
		j.Finish("1")
		ada := signIn(t, s, "ada@acme.test")
		graph := ada.get(r.Path+"/graph").want(200, "Steps and what they depend on", "One <b>", "make secret", "Three", "1 failed, 299 pending")
		if strings.Contains(graph.Body, "<b>One") || !strings.Contains(graph.Body, `<path class="edge"`) {
			t.Error("the graph has no edges, or contains the label as HTML")
		}
		waterfall := ada.get(r.Path+"/waterfall").want(200, "When jobs waited and ran", "waiting for an agent", "running: 1m 0s in all")
		if !strings.Contains(waterfall.Body, `<path class="span wait"`) {
			t.Error("the waterfall has no times of waiting")
		}
		for _, page := range []string{"/graph", "/waterfall", "/artifacts", "/artifacts.zip"} {
			signIn(t, s, "cy@rival.test").get(r.Path + page).want(404)
		}
		s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "public"}).Want(200)
		visit(t, s).get(r.Path+"/graph").want(200, "Three").wantNot("make secret")
		visit(t, s).get(r.Path+"/waterfall").want(200).wantNot("make secret", "two")
	})
}

// A build of 4,000 jobs is a small page.
func TestBuild_IsSmallWithThousandsOfJobs(t *testing.T) {
	s := onSQLite(t)
	var steps strings.Builder
	for i := range 8 {
		fmt.Fprintf(&steps, "  - {label: Shard %d, command: make shard, parallelism: 500}\n", i)
	}
	r := build(t, s, "steps:\n"+steps.String())
	ada := signIn(t, s, "ada@acme.test")
	for _, path := range []string{"", "?state=pending", "/graph", "/waterfall"} {
		begun := time.Now()
		page := ada.get(r.Path + path).want(200)
		t.Logf("%q: %d KB in %s", path, len(page.Body)/1000, time.Since(begun).Round(time.Millisecond))
		if len(page.Body) > 300_000 {
			t.Errorf("%q has %d bytes", path, len(page.Body))
		}
	}
}

// uploadFile uploads an artifact as agents do.
func uploadFile(t *testing.T, j *servertest.Job, path, kind, content string) {
	t.Helper()
	sum := sha1.Sum([]byte(content))
	batch := j.Post(j.Path("/artifacts"), map[string]any{"id": core.NewID(), "upload_destination": "", "artifacts": []any{map[string]any{
		"path": path, "absolute_path": "/tmp/x", "glob_path": "", "file_size": len(content), "sha1sum": hex.EncodeToString(sum[:]), "content_type": kind}}}).Want(200)
	var response struct {
		IDs          []string `json:"artifact_ids"`
		Instructions struct {
			Action struct {
				URL, Method, Path string
				FileInput         string `json:"file_input"`
			}
			Data map[string]string
		} `json:"upload_instructions"`
	}
	batch.JSON(&response)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, value := range response.Instructions.Data {
		w.WriteField(name, strings.ReplaceAll(value, "${artifact:path}", path))
	}
	part, err := w.CreateFormFile(response.Instructions.Action.FileInput, path)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(part, content)
	w.Close()
	to := response.Instructions.Action.URL
	if !strings.HasSuffix(to, response.Instructions.Action.Path) {
		to += response.Instructions.Action.Path
	}
	resp, err := http.Post(to, w.FormDataContentType(), &form)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s: %s", to, resp.Status)
	}
	j.Put(j.Path("/artifacts"), map[string]any{"artifacts": []any{map[string]any{"id": response.IDs[0], "state": "finished"}}}).Want(200)
}

func TestArtifacts_HaveFoldersPreviewsAndAnArchive(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		j := r.take(s.Register(t, nil), "Thresh")
		uploadFile(t, j, "out/logs/a.txt", "text/plain", "hello <script>alert(1)</script>")
		uploadFile(t, j, "out/junit.xml", "application/xml", `<testsuite><testcase classname="Barn" name="sorts"><failure message="not sorted">x</failure></testcase><testcase name="counts"/></testsuite>`)
		uploadFile(t, j, "report.html", "text/html", "<h1>Yield</h1>")
		uploadFile(t, j, "../../up.bin", "application/octet-stream", "\x00\x01")
		ada := signIn(t, s, "ada@acme.test")
		// Logs link artifacts and show images of their build, and only link what is elsewhere.
		appendLog(t, j, 1, 0, "\x1b]1339;url='artifact://report.html';content='the report'\a \x1b]1338;url='artifact://out/logs/a.txt';alt='a picture'\a \x1b]1338;url='https://elsewhere.test/a.png';alt='outside'\a\n")
		for _, page := range []*page{ada.get(r.Path + "/jobs/" + j.ID), ada.get(r.Path + "?job=" + j.ID)} {
			page.want(200, "the report", "outside").wantHTML(`src="`+r.Path+"/jobs/"+j.ID+`/artifact?path=out%2Flogs%2Fa.txt"`, `<a href="https://elsewhere.test/a.png"`)
			ada.get(page.find(`href="([^"]*/artifact\?path=report.html)"`)).want(302)
		}
		ada.get(r.Path + "/jobs/" + j.ID + "/artifact?path=nothing").want(404)
		signIn(t, s, "cy@rival.test").get(r.Path + "/jobs/" + j.ID + "/artifact?path=report.html").want(404)
		list := ada.get(r.Path+"/artifacts").want(200, "4 artifacts", "out/", "2 files", "report.html", "up.bin", "Download all as zip")
		ada.get(r.Path+"/artifacts?folder=out").want(200, "All files", "logs/", "junit.xml").wantNot("report.html")
		ada.get(r.Path+"/artifacts?folder=../../etc&job="+j.ID).want(200, "Nothing in this folder")
		page := ada.get(list.find(`href="([^"]*/preview)">report.html`)).want(200, "shown in a sandbox")
		if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-src 'self'") || !strings.Contains(page.Body, `<iframe class="preview-frame" sandbox src=`) {
			t.Errorf("the page is not in a sandbox: %s", csp)
		}
		text := ada.get(ada.get(r.Path+"/artifacts?folder=out/logs").find(`href="([^"]*/preview)">a.txt`)).want(200, "hello <script>alert(1)</script>")
		if strings.Contains(text.Body, "<script>alert") {
			t.Error("the text is part of the page")
		}
		ada.get(ada.get(r.Path+"/artifacts?folder=out").find(`href="([^"]*/preview)">junit.xml`)).want(200, "1 passed", "1 failed", "sorts", "Barn", "Source")
		ada.get(list.find(`href="([^"]*/preview)">up.bin`)).want(200, "No preview")
		archive := ada.get(r.Path + "/artifacts.zip").want(200)
		files, err := zip.NewReader(strings.NewReader(archive.Body), int64(len(archive.Body)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files.File {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != "out/logs/a.txt out/junit.xml report.html up.bin" {
			t.Errorf("the archive has %s", got)
		}
		ada.get(r.Path + "/artifacts.zip?job=0190c0de-0000-7000-8000-00000000ffff").want(404)
	})
}

func TestBrowser_SeesPicturesAndArtifacts(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, shopSteps)
	a := s.Register(t, nil)
	units := r.jobs("Unit")
	s.Clock.Advance(20 * time.Second)
	j := a.Acquire(units[0].ID).Start()
	uploadFile(t, j, "out/report.txt", "text/plain", "12 sacks")
	s.Clock.Advance(time.Minute)
	j.Finish("0")
	a.Acquire(units[1].ID).Start().Finish("1")
	b.open(r.Path + "/graph")
	b.signIn("ada@acme.test")
	b.see("Steps and what they depend on")
	b.audit("build-graph")
	b.press("Waterfall")
	b.see("When jobs waited and ran")
	b.shoot("build-waterfall")
	b.press("Artifacts")
	b.see("1 artifact", "out/")
	b.audit("build-artifacts")
	b.press("out/")
	b.press("report.txt")
	b.see("12 sacks")
	b.audit("artifact-preview")
}
