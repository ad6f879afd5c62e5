package buildpages

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/remoteaccess"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
)

// remoteRoutes are the pages with which people open a shell or a desktop in a running job.
func (s *Site) remoteRoutes() []route.Route {
	job := buildPath + "/jobs/{job}"
	return []route.Route{
		s.Get(job+"/shell", pages.SignedIn(pages.Within(s.shellPage))),
		s.Get(job+"/shell/connect", pages.SignedIn(pages.Within(s.connectShell))),
		s.Get(job+"/desktop", pages.SignedIn(pages.Within(s.desktopPage))),
		s.Post(job+"/desktop", pages.SignedIn(pages.Within(s.openDesktop))),
	}
}

// setSessionPolicy allows our own scripts and connections to this server. Modules draw with canvases, whose contents
// can become cursors.
func (s *Site) setSessionPolicy(h http.Header) {
	scheme, _, _ := strings.Cut(string(s.Public), "://")
	sockets := strings.Replace(scheme, "http", "ws", 1) + "://" + s.Public.Host()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self' "+sockets+"; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
}

// A sessionPage is the data of the page of a shell or a desktop.
type sessionPage struct {
	Kind   remoteaccess.Kind
	Job    string // name
	Build  string // path of the build's page with the job
	Number int
	Path   string // of the job
}

// sessionJob returns the job in the path if the visitor may open sessions into it.
func (s *Site) sessionJob(v *pages.Visit) (builds.OnJob, error) {
	o, err := s.Builds.LoadOnJob(v.Request)
	switch {
	case err != nil:
		return o, err
	case v.Member == nil:
		return o, pages.ErrNothing
	case !v.Member.Can(identity.ManageHostedAgents, v.Org):
		return o, core.Errorf(core.Forbidden, "Opening a session needs the permission to manage hosted agents. Ask an administrator for it.")
	}
	return o, nil
}

func (s *Site) shellPage(v *pages.Visit) error { return s.sessionPage(v, remoteaccess.Shell, "Shell") }

func (s *Site) desktopPage(v *pages.Visit) error {
	return s.sessionPage(v, remoteaccess.Desktop, "Desktop")
}

func (s *Site) sessionPage(v *pages.Visit, kind remoteaccess.Kind, title string) error {
	o, err := s.sessionJob(v)
	if err != nil {
		return err
	}
	page := sessionPage{Kind: kind, Job: markdown.Emoji(nameOf(o.Job)), Build: jobPath(v, o, o.ID), Number: o.Build.Number}
	page.Path = PathOf(v.Org, o.Pipeline.Slug, o.Build.Number) + "/jobs/" + o.ID
	s.setSessionPolicy(v.W.Header())
	return v.Show(http.StatusOK, "session", pages.View{Title: title + " · " + page.Job, Section: "builds", Page: page})
}

// connectShell is the WebSocket of a terminal. Browsers send cookies with requests of other sites too, so it checks
// where the page is from.
func (s *Site) connectShell(v *pages.Visit) error {
	o, err := s.sessionJob(v)
	if err != nil {
		return err
	}
	public := s.Public.Host()
	if !strings.EqualFold(v.Header.Get("Upgrade"), "websocket") || v.Header.Get("Origin") == "" {
		return core.Errorf(core.BadRequest, "This address is for the page of the shell.")
	}
	conn, err := websocket.Accept(v.W, v.Request.Request, &websocket.AcceptOptions{OriginPatterns: []string{public}})
	if err != nil {
		return nil // it has written the response
	}
	s.Remote.ServeTerminal(conn, v.Org, o.Job, opener(v), v.Address.String())
	return nil
}

// opener returns the visitor, whose sessions into jobs end when the visitor signs out.
func opener(v *pages.Visit) remoteaccess.Opener {
	return remoteaccess.Opener{User: v.User(), With: account.SessionCredential(v.Session)}
}

// openDesktop opens a desktop for its page, which connects with the credentials in the response.
func (s *Site) openDesktop(v *pages.Visit) error {
	o, err := s.sessionJob(v)
	if err != nil {
		return err
	}
	opened, err := s.Remote.Open(v.Context(), v.Org, o.Job, opener(v), remoteaccess.Desktop)
	if err != nil {
		return err
	}
	v.W.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.W).Encode(map[string]string{
		"endpoint": s.Remote.Endpoint(opened.ID), "token": opened.Token, "password": opened.Password,
	})
}

// readSessions reads the kinds of sessions that the visitor can open into the open job, now or after a retry.
func (b *board) readSessions(v *pages.Visit) error {
	if b.open == nil || v.Session == nil || v.Member == nil {
		return nil
	}
	if b.open.MayRetry {
		b.open.Panel.Debug = b.site.Remote.CheckDebug(v.Context(), v.Org, v.Member, b.open.Job) == nil
		return nil
	}
	return b.site.DB.Read(v.Context(), func(q *db.Q) error {
		kinds, err := b.site.Remote.Offered(q, v.Org, v.Member, b.open.Job)
		b.open.Panel.Shell = slices.Contains(kinds, remoteaccess.Shell)
		b.open.Panel.Desktop = slices.Contains(kinds, remoteaccess.Desktop)
		return err
	})
}
