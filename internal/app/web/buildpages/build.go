package buildpages

import (
	"html/template"
	"net/http"
	"strconv"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

const buildPath = "/{org}/{pipeline}/builds/{build}"

func (s *Site) buildRoutes() []route.Route {
	act := func(path string, h pages.Handler) route.Route {
		return s.Post(buildPath+path, pages.SignedIn(pages.Within(h)))
	}
	return []route.Route{
		s.Get(buildPath, pages.Within(s.build)),
		s.Get(buildPath+"/live", pages.Within(s.live)),
		act("/cancel", s.cancelBuild),
		act("/rebuild", s.rebuild),
		act("/retry", s.retryFailed),
		act("/jobs/{job}/retry", s.retryJob),
		act("/jobs/{job}/cancel", s.cancelJob),
		act("/jobs/{job}/unblock", s.unblockJob),
	}
}

// build shows a build with its jobs, and the log of the job in the query.
func (s *Site) build(v *pages.Visit) error {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return err
	}
	return s.showBuild(v, http.StatusOK, o, actionError{})
}

// An actionError is why an action on a build failed.
type actionError struct {
	Message string
	// JobID is the job whose form was submitted, Values what was entered, and Fields what is wrong with it;
	// both by the keys of the fields.
	JobID  string
	Values map[string][]string
	Fields pages.Problems
}

// A buildPage is the data of the page's template.
type buildPage struct {
	*board
	ActionError string
	Tabs        []Tab
	Version     string
	Parts       *parts
	Jobs        template.HTML // including the log
	Live        string        // path of the event stream
	// Notifications are what notify of the build sent. They are not live. Visitors do not see them.
	Notifications []pages.Delivery
}

func (s *Site) showBuild(v *pages.Visit, status int, o builds.OnBuild, t actionError) error {
	chosen := selectionOf(v)
	if t.JobID != "" {
		chosen.Job = t.JobID
	}
	if chosen.Job == "" && !chosen.Filtered() && v.FormQuery("page") == "" {
		var err error
		if chosen.Job, err = s.firstFailure(v, o); err != nil {
			return err
		}
	}
	b, err := s.readBoard(v, o, chosen, t, nil)
	if err != nil {
		return err
	}
	parts, err := b.parts()
	if err != nil {
		return err
	}
	page := buildPage{board: b, Tabs: b.tabs("jobs"), ActionError: t.Message, Version: parts.Version(), Parts: parts, Jobs: parts.Jobs, Live: b.Path + "/live?" + b.query().Encode()}
	if b.hasLog() {
		log, err := s.renderLog(v, b)
		if err != nil {
			return err
		}
		page.Jobs = parts.withLog(log)
	}
	if !o.Pipeline.Visited() {
		if page.Notifications, err = s.buildNotifications(v, o.Build.ID); err != nil {
			return err
		}
	}
	s.SetLivePolicy(v.W.Header())
	return v.Show(status, "build", pages.View{Title: b.Title(), Section: "builds", Icon: b.Favicon(), Page: page})
}

// firstFailure returns the job at which a page opens: the first one that failed, or "".
func (s *Site) firstFailure(v *pages.Visit, o builds.OnBuild) (string, error) {
	if o.State != flow.BuildFailed && o.State != flow.BuildFailing {
		return "", nil
	}
	return s.Builds.FirstFailed(v.Context(), o.Build)
}

// renderLog returns the current log of the open job.
func (s *Site) renderLog(v *pages.Visit, b *board) (string, error) {
	update, err := s.Logs.Window(b.logOf()).Read(v.Context())
	if err != nil {
		return "", err
	}
	job := s.Prefix + b.open.Path()
	update.Ended = update.Ended || b.open.State.Ended() // a stack can finish a job without a log
	update.Settled, update.Screen = linkArtifacts(update.Settled, job), linkArtifacts(update.Screen, job)
	log, err := b.render("log", "", struct {
		joblog.WindowUpdate
		Path            string
		Settled, Screen template.HTML
		Something       bool
	}{update, b.open.Path(), template.HTML(update.Settled), template.HTML(update.Screen), update.Settled+update.Screen != ""})
	return log.HTML, err
}

// buildWith returns the build in the path if the visitor has a permission on it.
func (s *Site) buildWith(v *pages.Visit, p identity.Permission) (builds.OnBuild, error) {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err == nil && !o.Permits(v.Request, p) {
		err = errNotAllowed
	}
	return o, err
}

// jobWith returns the job in the path if the visitor has a permission on it.
func (s *Site) jobWith(v *pages.Visit, p identity.Permission) (builds.OnJob, error) {
	o, err := s.Builds.LoadOnJob(v.Request)
	if err == nil && !o.Permits(v.Request, p) {
		err = errNotAllowed
	}
	return o, err
}

var errNotAllowed = core.Errorf(core.Forbidden, "You can view this build but not change it. Ask an administrator for access.")

// PathOf returns the path of a build's page.
func PathOf(org *identity.Organization, slug string, number int) string {
	return core.PublicURL("").To(org.Slug, slug, "builds", strconv.Itoa(number))
}

// firstNotifications limits the notifications on the page of a build.
const firstNotifications = 20

// buildNotifications returns what notify of a build sent, for its page.
func (s *Site) buildNotifications(v *pages.Visit, buildID string) (rows []pages.Delivery, err error) {
	list, err := s.Deliveries.OfBuild(v.Context(), buildID, firstNotifications)
	for _, d := range list {
		rows = append(rows, pages.Delivery{Delivery: d})
	}
	return rows, err
}
