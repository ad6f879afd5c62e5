package buildpages

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/markdown"
)

const (
	// pageRows is how many lines of a log the page of a job has before its script loads others.
	pageRows = 300
	// liveRows is how many lines an event about a log has.
	liveRows = 300
	// foundRows is how many matches of a search the page lists without its script.
	foundRows = 100
)

func itoa(n int) string { return strconv.Itoa(n) }

// logJobOf returns the log of a job.
func logJobOf(o builds.OnJob) joblog.Job {
	return joblog.Job{OrganizationID: o.OrganizationID, PipelineID: o.Build.PipelineID, BuildID: o.Build.ID, ID: o.ID}
}

// A logPage is a part of a log on the page of its job. The script of the page shows any other part; without it, links
// lead to the next and the previous one.
type logPage struct {
	Path    string // of the job
	Lines   int64
	Size    int64
	First   int64 // number of the first row, from 0
	Rows    template.HTML
	Shown   int
	Ended   bool
	Query   string
	Matches int64         // lines that contain Query
	Found   template.HTML // the first of them
	Lost    string        // why the log cannot be read
}

// From and To are the numbers of the first and last line on the page, from 1.
func (l *logPage) From() int64 { return l.First + 1 }

// To returns the number of the last line on the page, from 1.
func (l *logPage) To() int64 { return l.First + int64(l.Shown) }

// Earlier returns the number of the line at which the part before begins, from 1; 0: there is none.
func (l *logPage) Earlier() int64 {
	if l.First == 0 {
		return 0
	}
	return max(0, l.First-pageRows) + 1
}

// Later returns the number of the line at which the next part begins, from 1; 0: there is none.
func (l *logPage) Later() int64 {
	if l.To() >= l.Lines {
		return 0
	}
	return l.To() + 1
}

// readLogPage reads the part of a log that the query asks for with from or q. Otherwise it is the end, where most
// failures are reported.
func (s *Site) readLogPage(v *pages.Visit, r *row) (*logPage, error) {
	page := &logPage{Path: r.Path(), Query: core.Cut(strings.TrimSpace(v.FormQuery("q")), maxText)}
	l, err := s.Logs.Open(v.Context(), joblog.Job{OrganizationID: r.OrganizationID, PipelineID: r.board.PipelineID, BuildID: r.BuildID, ID: r.ID})
	if core.KindOf(err) == core.Gone {
		page.Lost = err.Error()
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	if page.Lines, err = l.Lines(v.Context()); err != nil {
		return nil, err
	}
	page.Size, page.Ended = l.Size, l.Ended || r.State.Ended() // a stack can finish a job without a log
	page.First = max(0, page.Lines-pageRows)
	if from, err := strconv.ParseInt(v.FormQuery("from"), 10, 64); err == nil {
		page.First = min(max(0, from-1), max(0, page.Lines-1))
	}
	rows, err := l.Rows(v.Context(), page.First, pageRows)
	if err != nil {
		return nil, err
	}
	page.Rows, page.Shown = template.HTML(strings.Join(rowsHTML(rows, s.Prefix+r.Path()), "")), len(rows)
	if page.Query != "" {
		err = page.search(v.Context(), l)
	}
	return page, err
}

// search fills in the first matches.
func (l *logPage) search(ctx context.Context, log *joblog.Log) error {
	found, err := log.Search(ctx, l.Query)
	if err != nil {
		return err
	}
	l.Matches = found.Total
	var list strings.Builder
	for _, line := range found.Lines[:min(len(found.Lines), foundRows)] {
		rows, err := log.Rows(ctx, line, 1)
		if err != nil {
			return err
		}
		for _, r := range rows {
			fmt.Fprintf(&list, `<li><a href="?from=%d#L%d">%d</a> <code>%s</code></li>`, max(1, r.Number-8), r.Number+1, r.Number+1, template.HTMLEscapeString(core.Cut(r.Text, 300)))
		}
	}
	l.Found = template.HTML(list.String())
	return nil
}

// rowsHTML returns lines of a log as elements. job is the path of its page.
func rowsHTML(rows []joblog.Row, job string) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		number := strconv.FormatInt(r.Number+1, 10)
		class, text := "row", linkArtifacts(r.HTML, job)
		if r.Kind.Heading() {
			class = "row heading"
			if !strings.Contains(text, "<") {
				text = markdown.Emoji(text)
			}
		}
		at := ""
		if !r.At.IsZero() {
			at = `<time datetime="` + r.At.Format("2006-01-02T15:04:05.000Z") + `">` + r.At.Format("15:04:05") + `</time>`
		}
		list[i] = `<div class="` + class + `" id="L` + number + `"><a class="n" href="#L` + number + `" aria-label="Line ` + number + `">` + number + `</a>` + at + `<span class="t">` + text + "</span></div>"
	}
	return list
}

// writeJSON writes a response for the script of a page.
func writeJSON(v *pages.Visit, value any) error {
	v.W.Header().Set("Content-Type", "application/json")
	v.W.WriteHeader(http.StatusOK)
	return json.NewEncoder(v.W).Encode(value)
}

// A rowsView are lines of a log for the script.
type rowsView struct {
	From       int64    `json:"from"` // number of the first, from 0
	Lines      int64    `json:"lines"`
	Generation int64    `json:"generation"`
	Size       string   `json:"size"` // formatted
	Ended      bool     `json:"ended"`
	Rows       []string `json:"rows"`
}

// logRows returns lines of a log.
func (s *Site) logRows(v *pages.Visit) error {
	o, l, err := s.openLog(v)
	if err != nil {
		return err
	}
	from, err := strconv.ParseInt(v.FormQuery("from"), 10, 64)
	if err != nil || from < 0 {
		return core.Errorf(core.BadRequest, "from must be the number of a line, from 0")
	}
	count, err := strconv.Atoi(v.FormQuery("count"))
	if err != nil || count < 1 || count > joblog.MaxRows {
		return core.Errorf(core.BadRequest, "count must be from 1 to %d", joblog.MaxRows)
	}
	lines, err := l.Lines(v.Context())
	if err != nil {
		return err
	}
	rows, err := l.Rows(v.Context(), from, count)
	if err != nil {
		return err
	}
	return writeJSON(v, rowsView{From: from, Lines: lines, Generation: l.Generation(), Size: pages.Size(l.Size), Ended: l.Ended, Rows: rowsHTML(rows, s.Prefix+PathOf(v.Org, o.Pipeline.Slug, o.Build.Number)+"/jobs/"+o.ID)})
}

// An outlineView is the outline of a log for the script.
type outlineView struct {
	Lines    int64         `json:"lines"`
	Sections []sectionView `json:"sections"`
	Error    int64         `json:"error"` // first line that reports a failure, from 0; -1: none
}

type sectionView struct {
	Line int64  `json:"line"`
	End  int64  `json:"end"`
	Open bool   `json:"open"`
	Took string `json:"took"` // formatted; "" if unknown
}

// logOutline returns the sections of a log.
func (s *Site) logOutline(v *pages.Visit) error {
	_, l, err := s.openLog(v)
	if err != nil {
		return err
	}
	o, err := l.Outline(v.Context())
	if err != nil {
		return err
	}
	view := outlineView{Lines: o.Lines, Error: o.FirstError, Sections: make([]sectionView, len(o.Sections))}
	for i, section := range o.Sections {
		view.Sections[i] = sectionView{Line: section.Line, End: section.End, Open: section.Open}
		if !section.At.IsZero() && !section.Until.IsZero() {
			view.Sections[i].Took = pages.Length(section.Until.Sub(section.At))
		}
	}
	return writeJSON(v, view)
}

// logSearch returns the lines of a log that contain a text.
func (s *Site) logSearch(v *pages.Visit) error {
	_, l, err := s.openLog(v)
	if err != nil {
		return err
	}
	found, err := l.Search(v.Context(), v.FormQuery("q"))
	if err != nil {
		return err
	}
	if found.Lines == nil {
		found.Lines = []int64{}
	}
	return writeJSON(v, map[string]any{"lines": found.Lines, "total": found.Total})
}

// rowsLog sends the last lines of a log to the page of its job.
type rowsLog struct {
	site *Site
	job  joblog.Job
	path string // of the page of the job
	now  rowsView
	read bool
}

func (r *rowsLog) Subscribe() (printed <-chan struct{}, cancel func()) {
	return r.site.Bus.Subscribe(joblog.Topic(r.job.ID))
}

func (r *rowsLog) All() any { return r.now }

func (r *rowsLog) Next(ctx context.Context) (any, error) {
	l, err := r.site.Logs.Open(ctx, r.job)
	if core.KindOf(err) == core.Gone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, err := l.Lines(ctx)
	if err != nil {
		return nil, err
	}
	from := max(0, lines-liveRows)
	if r.read && l.Generation() == r.now.Generation && lines >= r.now.Lines {
		from = max(from, r.now.Lines-1) // the last line may have grown
	}
	rows, err := l.Rows(ctx, max(0, from), liveRows)
	if err != nil {
		return nil, err
	}
	r.now, r.read = rowsView{From: max(0, from), Lines: lines, Generation: l.Generation(), Size: pages.Size(l.Size), Ended: l.Ended, Rows: rowsHTML(rows, r.path)}, true
	return r.now, nil
}
