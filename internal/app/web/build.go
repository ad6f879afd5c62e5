package web

import (
	"html/template"
	"net/http"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const buildPath = "/{org}/{pipeline}/builds/{build}"

func (s *Site) buildRoutes() []route.Route {
	act := func(path string, h handler) route.Route { return s.post(buildPath+path, signedIn(within(h))) }
	return []route.Route{
		s.get(buildPath, within(s.build)),
		s.get(buildPath+"/live", within(s.live)),
		s.get(buildPath+"/jobs/{job}/log.txt", within(s.logText)),
		s.get(buildPath+"/jobs/{job}/log.html", within(s.logHTML)),
		s.get(buildPath+"/jobs/{job}/artifacts/{artifact}", within(s.artifact)),
		act("/cancel", s.cancelBuild),
		act("/rebuild", s.rebuild),
		act("/retry", s.retryFailed),
		act("/jobs/{job}/retry", s.retryJob),
		act("/jobs/{job}/cancel", s.cancelJob),
		act("/jobs/{job}/unblock", s.unblockJob),
	}
}

// build shows a build with its jobs, and the log of the job in the query.
func (s *Site) build(v *visit) error {
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
	Fields problems
}

// A buildPage is the data of the page's template.
type buildPage struct {
	*board
	ActionError string
	Version     string
	Parts       *parts
	Jobs        template.HTML // including the log
	Live        string        // path of the event stream
	// Notifications are what notify of the build sent. They are not live. Visitors do not see them.
	Notifications []deliveryRow
}

func (s *Site) showBuild(v *visit, status int, o builds.OnBuild, t actionError) error {
	b, err := s.readBoard(v, o, t, nil)
	if err != nil {
		return err
	}
	parts, err := b.parts()
	if err != nil {
		return err
	}
	page := buildPage{board: b, ActionError: t.Message, Version: parts.version(), Parts: parts, Jobs: parts.Jobs, Live: b.Path + "/live?" + b.query().Encode()}
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
	s.setLivePolicy(v.w.Header())
	return v.show(status, "build", view{Title: b.Title(), Section: "builds", Page: page})
}

// renderLog returns the current log of the open job.
func (s *Site) renderLog(v *visit, b *board) (string, error) {
	update, err := s.Logs.Window(b.logOf()).Read(v.Context())
	if err != nil {
		return "", err
	}
	log, err := b.render("log", "", struct {
		joblog.WindowUpdate
		Path            string
		Settled, Screen template.HTML
		Something       bool
	}{update, b.open.Path(), template.HTML(update.Settled), template.HTML(update.Screen), update.Settled+update.Screen != ""})
	return log.HTML, err
}

// buildWith returns the build in the path if the visitor has a permission on it.
func (s *Site) buildWith(v *visit, p identity.Permission) (builds.OnBuild, error) {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err == nil && !o.Permits(v.Request, p) {
		err = errNotAllowed
	}
	return o, err
}

// jobWith returns the job in the path if the visitor has a permission on it.
func (s *Site) jobWith(v *visit, p identity.Permission) (builds.OnJob, error) {
	o, err := s.Builds.LoadOnJob(v.Request)
	if err == nil && !o.Permits(v.Request, p) {
		err = errNotAllowed
	}
	return o, err
}

var errNotAllowed = core.Errorf(core.Forbidden, "You can view this build but not change it. Ask an administrator for access.")

// pathOf returns the path of a build's page.
func pathOf(org *identity.Organization, slug string, number int) string {
	return core.PublicURL("").To(org.Slug, slug, "builds", strconv.Itoa(number))
}
