package buildpages

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/testreport"
)

const (
	// maxPreview is how much of a text is shown, and maxReport the size of test reports that are read.
	maxPreview = 256 << 10
	maxReport  = 8 << 20
	// maxTests limits the tests of a report on the page.
	maxTests = 200
)

// A fileKind is how an artifact is previewed.
type fileKind int

const (
	otherFile fileKind = iota
	textFile
	imageFile
	pageFile   // HTML
	reportFile // JUnit XML, perhaps
)

// textEndings are the endings of files that are text, whatever their media type.
var textEndings = []string{".txt", ".log", ".md", ".json", ".yml", ".yaml", ".toml", ".xml", ".csv", ".tsv", ".go", ".rs", ".py", ".rb", ".js", ".ts", ".java", ".c", ".h", ".cpp", ".sh", ".sql", ".diff", ".patch", ".ini", ".cfg", ".conf", ".lock", ".tap"}

// kindOf returns how an artifact is previewed, by its media type and the ending of its path.
func kindOf(a artifacts.Artifact) fileKind {
	media, _, _ := mime.ParseMediaType(a.MimeType)
	ending := strings.ToLower(path.Ext(a.Path))
	switch {
	case media == "image/png" || media == "image/jpeg" || media == "image/gif" || media == "image/webp" || media == "image/svg+xml":
		return imageFile
	case media == "text/html" || ending == ".html" || ending == ".htm":
		return pageFile
	case ending == ".xml" && a.FileSize <= maxReport:
		return reportFile
	case strings.HasPrefix(media, "text/") || media == "application/json" || slices.Contains(textEndings, ending):
		return textFile
	}
	return otherFile
}

// A previewPage is the data of the preview of an artifact.
type previewPage struct {
	Head
	artifacts.Artifact
	JobPath  string
	FilePath string
	Kind     fileKind
	Text     string
	Cut      bool // Text is only the beginning
	Report   *testSummary
}

// Name returns the last part of the artifact's path.
func (p previewPage) Name() string { return path.Base(p.Artifact.Path) }

// Folder returns the path of the artifact's folder in the list.
func (p previewPage) Folder() string {
	return artifactsPage{Head: p.Head}.folderPath(strings.Trim(path.Dir("/"+cleanPath(p.Artifact.Path)), "/"))
}

// IsImage reports whether it is shown as an image.
func (p previewPage) IsImage() bool { return p.Kind == imageFile }

// IsPage reports whether it is shown in a frame.
func (p previewPage) IsPage() bool { return p.Kind == pageFile }

// A testSummary is what a test report says.
type testSummary struct {
	Counts   []testCount
	Failures []testreport.Execution
	More     int
}

type testCount struct {
	Class, Text string
}

// preview shows an artifact: text, an image, a test report, or a page in a frame that can do nothing.
func (s *Site) preview(v *pages.Visit) error {
	o, err := s.Artifacts.Load(v.Request)
	if err != nil {
		return err
	}
	head := HeadOf(v, buildOf(o.OnJob))
	a := o.Artifact
	page := previewPage{Head: head, Artifact: a, JobPath: head.Path + "/jobs/" + a.JobID, FilePath: head.Path + "/jobs/" + a.JobID + "/artifacts/" + a.ID}
	if a.State == artifacts.StateFinished && a.Kept() {
		page.Kind = kindOf(a)
	}
	if page.Kind == textFile || page.Kind == reportFile {
		if err := page.read(v.Context(), s); err != nil {
			return err
		}
	}
	s.SetLivePolicy(v.W.Header())
	if page.Kind == pageFile {
		h := v.W.Header()
		h.Set("Content-Security-Policy", h.Get("Content-Security-Policy")+"; frame-src "+strings.TrimSpace("'self' "+string(s.Content)))
	}
	return v.Show(http.StatusOK, "preview", pages.View{Title: page.Name(), Section: "builds", Page: page})
}

// read reads the text of the artifact, and what it says as a test report.
func (p *previewPage) read(ctx context.Context, s *Site) error {
	file, err := s.Open(ctx, p.Artifact)
	if err != nil {
		return err
	}
	defer file.Close()
	limit := int64(maxPreview)
	if p.Kind == reportFile {
		limit = maxReport
	}
	content, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return err
	}
	if p.Kind == reportFile {
		p.Report = summarize(content)
	}
	p.Cut = int64(len(content)) < p.FileSize || len(content) > maxPreview
	content = content[:min(len(content), maxPreview)]
	for cut := 0; cut < utf8.UTFMax && len(content) > 0 && p.Cut && !utf8.Valid(content); cut++ {
		content = content[:len(content)-1] // a character was cut
	}
	if bytes.IndexByte(content, 0) >= 0 {
		p.Kind = otherFile // not a text
		return nil
	}
	p.Text = strings.ToValidUTF8(string(content), "\uFFFD")
	return nil
}

// summarize reads a test report; nil if it is none.
func summarize(content []byte) *testSummary {
	report, err := testreport.Read("", false, url.Values{"format": {"junit"}, "run_env[key]": {"preview"}}, bytes.NewReader(content))
	if err != nil || len(report.Executions) == 0 {
		return nil
	}
	s := &testSummary{}
	counts := map[testreport.Result]int{}
	for _, e := range report.Executions {
		counts[e.Result]++
		if e.Result != testreport.Failed {
			continue
		}
		if len(s.Failures) == maxTests {
			s.More++
			continue
		}
		e.FailureReason = core.Cut(e.FailureReason, 2000)
		s.Failures = append(s.Failures, e)
	}
	for _, of := range []struct {
		result testreport.Result
		class  string
	}{{testreport.Passed, "good"}, {testreport.Failed, "bad"}, {testreport.Skipped, ""}, {testreport.Pending, ""}, {testreport.Unknown, ""}} {
		if n := counts[of.result]; n > 0 {
			s.Counts = append(s.Counts, testCount{of.class, itoa(n) + " " + string(of.result)})
		}
	}
	return s
}
