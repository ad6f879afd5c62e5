package buildpages

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/stacks"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

const (
	// maxAnnotations and maxArtifacts limit what a build's page shows.
	maxAnnotations = 30
	maxArtifacts   = 100
	// maxNotes limits the HTML of all annotations on the page, in bytes.
	maxNotes = 4 << 20
)

// A board is the data of a build's page for a visitor.
type board struct {
	Head
	site     *Site
	MayBuild bool

	chosen       selection
	found        int // number of units on all pages
	Sections     []section
	Shares       []share
	PageNumber   int // number of the page of jobs
	Pages        int
	Annotations  []annotations.Rendered
	Unshown      int    // number of annotations left out
	notesVersion string // of the annotations
	Artifacts    []artifact
	MoreFiles    int

	open *row // job whose panel, and log if it has one, is shown
}

// An artifact is a file to download.
type artifact struct {
	artifacts.Artifact
	Path string // path of the file in the site
	Name string
}

// readBoard reads the data of a build's page. before, which can be nil, is the previous version.
func (s *Site) readBoard(v *pages.Visit, o builds.OnBuild, chosen selection, t actionError, before *board) (*board, error) {
	b := &board{Head: HeadOf(v, o), site: s, chosen: chosen, MayBuild: mayBuild(v, o)}
	jobs, err := s.Builds.Board(v.Context(), o.Build, chosen.board())
	if err != nil {
		return nil, err
	}
	b.chosen.Page, b.PageNumber, b.Pages, b.found, b.Shares = jobs.Number, jobs.Number, jobs.Pages, jobs.Found, sharesOf(jobs.Counts)
	b.arrange(v, jobs, t)
	if err := b.readAnswers(v); err != nil {
		return nil, err
	}
	if err := b.readStacks(v); err != nil {
		return nil, err
	}
	if err := b.readPanel(v); err != nil {
		return nil, err
	}
	if err := b.readSessions(v); err != nil {
		return nil, err
	}
	if err := b.readNotes(v, before); err != nil {
		return nil, err
	}
	return b, b.readFiles(v)
}

// mayBuild reports whether the visitor can change the build.
func mayBuild(v *pages.Visit, o builds.OnBuild) bool {
	return v.Session != nil && o.Permits(v.Request, identity.BuildPipeline)
}

// query returns the query parameters that select the shown part of the build.
func (b *board) query() url.Values {
	chosen := b.chosen
	chosen.Job = cmp.Or(b.OpenID(), noJob)
	return chosen.query()
}

// OpenID returns the id of the open job, or "".
func (b *board) OpenID() string {
	if b.open == nil {
		return ""
	}
	return b.open.ID
}

// PageLinks returns links to all pages of jobs.
func (b *board) PageLinks() []pages.PageLink {
	links := make([]pages.PageLink, b.Pages)
	for i := range links {
		there := b.chosen
		there.Page, there.Job = i+1, noJob
		links[i] = pages.PageLink{Path: there.path(b.Path), Text: strconv.Itoa(i + 1), Here: i+1 == b.PageNumber}
	}
	return links
}

// readStacks reads the latest stack event of jobs that do not run yet.
func (b *board) readStacks(v *pages.Visit) error {
	waiting := make(map[string]*row)
	for r := range b.rows() {
		if r.Type == flow.Script && r.State == flow.Scheduled {
			waiting[r.ID] = r
		}
	}
	if len(waiting) == 0 || b.Pipeline.Visited() {
		return nil
	}
	return b.site.DB.Read(v.Context(), func(q *db.Q) error {
		latest, err := stacks.LatestNotifications(q, slices.Collect(maps.Keys(waiting)))
		for id, e := range latest {
			waiting[id].Latest = &e
		}
		return err
	})
}

// MayCancel reports whether the visitor can cancel the build.
func (b *board) MayCancel() bool {
	return b.MayBuild && !b.State.Ended() && b.State != flow.BuildCanceling && b.State != flow.BuildCreating
}

// MayRetryFailed reports whether the visitor can retry several jobs at once.
func (b *board) MayRetryFailed() bool {
	retryable := 0
	for r := range b.rows() {
		if r.MayRetry && !r.Passed() {
			retryable++
		}
	}
	for _, s := range b.Shares {
		if s.Label == "failed" && retryable > 0 && s.Count > 1 {
			return true
		}
	}
	return retryable > 1
}

// MayRebuild reports whether the visitor can rebuild the build.
func (b *board) MayRebuild() bool {
	return b.MayBuild && b.Pipeline.AllowRebuilds && !b.Pipeline.Archived()
}

// rows iterates over all rows of the page, including earlier attempts.
func (b *board) rows() func(yield func(*row) bool) {
	return func(yield func(*row) bool) {
		for _, s := range b.Sections {
			for _, u := range s.Units {
				for _, r := range u.Rows {
					if !yield(r) {
						return
					}
					for _, e := range r.Earlier {
						if !yield(e) {
							return
						}
					}
				}
			}
		}
	}
}

// readNotes reads the annotations, unless before has the same version.
func (b *board) readNotes(v *pages.Visit, before *board) (err error) {
	if b.notesVersion, err = b.site.Annotations.Version(v.Context(), b.Build); err != nil {
		return err
	}
	if before != nil && before.notesVersion == b.notesVersion {
		b.Annotations, b.Unshown = before.Annotations, before.Unshown
		return nil
	}
	var total int
	b.Annotations, total, err = b.site.Annotations.OfBuild(v.Context(), b.Build, maxAnnotations, maxNotes, func(a artifacts.Artifact) string {
		return b.site.Prefix + b.filePath(a)
	})
	for i := range b.Annotations {
		b.Annotations[i].HTML = embedded(b.Annotations[i].HTML, "note-"+b.Annotations[i].ID+"-")
	}
	b.Unshown = total - len(b.Annotations)
	return err
}

var (
	anchors  = regexp.MustCompile(` (id="|href="#)`)
	headings = regexp.MustCompile(`<(/?)h([1-6])\b`)
)

// embedded prepares sanitized HTML, in which quotes occur only around attributes, for a page: it prefixes ids
// and links to them, and lowers headings below those of the page.
func embedded(safe, prefix string) string {
	safe = anchors.ReplaceAllString(safe, " ${1}"+prefix)
	return headings.ReplaceAllStringFunc(safe, func(tag string) string {
		level := int(tag[len(tag)-1] - '0')
		return tag[:len(tag)-1] + strconv.Itoa(min(level+2, 6))
	})
}

func (b *board) readFiles(v *pages.Visit) error {
	list, total, err := b.site.Artifacts.OfBuild(v.Context(), b.Build, maxArtifacts)
	for _, a := range list {
		b.Artifacts = append(b.Artifacts, b.file(a))
	}
	b.MoreFiles = total - len(list)
	return err
}

func (b *board) filePath(a artifacts.Artifact) string {
	return b.Path + "/jobs/" + a.JobID + "/artifacts/" + a.ID
}

// logOf returns the job whose log is shown.
func (b *board) logOf() joblog.Job {
	return joblog.Job{OrganizationID: b.OrganizationID, PipelineID: b.PipelineID, BuildID: b.ID, ID: b.open.ID}
}

// hasLog reports whether a log is shown.
func (b *board) hasLog() bool { return b.open != nil && b.open.Type == flow.Script }
