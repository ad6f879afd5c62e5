package buildpages

import (
	"context"
	"html/template"
	"net/http"
	"strings"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const oneJobPath = buildPath + "/jobs/{job}"

func (s *Site) jobRoutes() []route.Route {
	return []route.Route{
		s.Get(oneJobPath, pages.Within(s.job)),
		s.Get(oneJobPath+"/live", pages.Within(s.jobLive)),
		s.Get(oneJobPath+"/log/rows", pages.Within(s.logRows)),
		s.Get(oneJobPath+"/log/outline", pages.Within(s.logOutline)),
		s.Get(oneJobPath+"/log/search", pages.Within(s.logSearch)),
		s.Get(oneJobPath+"/log.txt", pages.Within(s.logText)),
		s.Get(oneJobPath+"/log.html", pages.Within(s.logHTML)),
	}
}

// The ids of the elements of a job's page that change independently.
const (
	jobHeadPart  = "job-head"
	jobPanelPart = "job-panel"
)

// A jobPage is the data of the page of a job.
type jobPage struct {
	*jobBoard
	Version string
	Head    template.HTML
	Panel   template.HTML
	Live    string   // path of the event stream
	Log     *logPage // nil: it has none
}

// A jobBoard is the data of a job's page for a visitor.
type jobBoard struct {
	*board
	Row      *row
	Attempts []*row
	Files    []artifact
	More     int // number of files left out
}

// job shows a job with its log.
func (s *Site) job(v *pages.Visit) error {
	o, err := s.Builds.LoadOnJob(v.Request)
	if err != nil {
		return err
	}
	b, err := s.readJob(v, o)
	if err != nil {
		return err
	}
	parts, err := b.parts()
	if err != nil {
		return err
	}
	page := jobPage{jobBoard: b, Version: parts.Version(), Live: b.Row.Path() + "/live?", Head: parts.Head, Panel: parts.Notes}
	if o.Type == flow.Script {
		if page.Log, err = s.readLogPage(v, b.Row); err != nil {
			return err
		}
	}
	s.SetLivePolicy(v.W.Header())
	return v.Show(http.StatusOK, "job", pages.View{Title: b.Title(), Section: "builds", Icon: faviconOf(b.Row.Badge), Page: page})
}

// Title returns the title of the page.
func (b *jobBoard) Title() string {
	return b.Row.Badge.Label + ": " + markdown.Emoji(b.Row.Name) + " · " + b.Pipeline.Name + " #" + itoa(b.Number)
}

// BuildLink returns the path of the build's page with the job open.
func (b *jobBoard) BuildLink() string { return selection{Job: b.Row.ID}.path(b.Path) + "#" + b.Row.ID }

// Favicon returns the asset of the icon that shows the state of the job.
func (b *jobBoard) Favicon() string { return faviconOf(b.Row.Badge) }

// readJob reads the data of a job's page.
func (s *Site) readJob(v *pages.Visit, o builds.OnJob) (*jobBoard, error) {
	on := builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}
	b := &jobBoard{board: &board{Head: HeadOf(v, on), site: s, chosen: selection{Job: o.ID}, MayBuild: mayBuild(v, on)}}
	b.Row = b.row(v, o.Job, actionError{})
	if b.Row.Panel == nil { // a job that has no details on the page of its build
		b.Row.Panel = &panel{}
		b.open = b.Row
	}
	attempts, err := s.Builds.Attempts(v.Context(), o.Job)
	if err != nil {
		return nil, err
	}
	for i, j := range attempts {
		r := b.row(v, j, actionError{})
		r.Attempt, r.Open = i+1, j.ID == o.ID
		b.Attempts = append(b.Attempts, r)
		if r.Open {
			b.Row.Attempt = i + 1
		}
	}
	b.open = b.Row
	if err := b.readPanel(v); err != nil {
		return nil, err
	}
	if !o.Pipeline.Visited() && o.Type == flow.Script {
		b.Row.Panel.Env = builds.EnvText(s.Builds.Environment(v.Org, o.Pipeline, o.Build, o.Job))
		if b.Row.Panel.Usage, err = s.Builds.Usage(v.Context(), o.ID); err != nil {
			return nil, err
		}
	}
	if err := b.readSessions(v); err != nil {
		return nil, err
	}
	list, total, err := s.Artifacts.OfOneJob(v.Context(), o.Job, maxArtifacts)
	for _, a := range list {
		b.Files = append(b.Files, b.file(a))
	}
	b.More = total - len(list)
	return b, err
}

// file returns an artifact with its path, if it can be downloaded.
func (b *board) file(a artifacts.Artifact) artifact {
	f := artifact{Artifact: a, Name: a.Path}
	if a.State == artifacts.StateFinished {
		f.Path = b.filePath(a)
	}
	return f
}

// parts renders the elements of the page that change.
func (b *jobBoard) parts() (*parts, error) {
	p := &parts{}
	for id, to := range map[string]*template.HTML{jobHeadPart: &p.Head, jobPanelPart: &p.Notes} {
		one, err := b.renderPart("job", id, id, b)
		if err != nil {
			return nil, err
		}
		*to = template.HTML(one.HTML)
		p.fixed = append(p.fixed, one)
	}
	return p, nil
}

// jobLive streams changes of a job to its page: "parts" as on the page of a build, and in "log" the last lines.
func (s *Site) jobLive(v *pages.Visit) error {
	return s.Live.Follow(v, func(v *pages.Visit) (string, func() *live.Source, error) {
		o, err := s.Builds.LoadOnJob(v.Request)
		if err != nil {
			return "", nil, err
		}
		on := builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}
		key := strings.Join([]string{"job", o.ID, permissionsOf(v, on)}, "\n")
		return key, func() *live.Source { return s.jobFeed(v, o) }, nil
	})
}

// jobFeed returns the feed of a job's page.
func (s *Site) jobFeed(v *pages.Visit, o builds.OnJob) *live.Source {
	reader, f := live.Detached(v), s.source(o.Build.ID)
	f.Read = func(ctx context.Context) (pages.Snapshot, error) {
		reader.Request.Request = reader.Request.Request.WithContext(ctx)
		o, err := s.Builds.LoadOnJob(reader.Request)
		if err != nil {
			return nil, err
		}
		b, err := s.readJob(reader, o)
		if err != nil {
			return nil, err
		}
		return b.parts()
	}
	if o.Type == flow.Script {
		f.Log = &rowsLog{site: s, job: logJobOf(o), path: s.Prefix + PathOf(v.Org, o.Pipeline.Slug, o.Build.Number) + "/jobs/" + o.ID}
	}
	return f
}
