package hosted

import (
	"net/http"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of hosted agents.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Path: "/vnc-session", Summary: "Open a remote desktop on the agent of a job",
			Description: "For running command jobs on hosted agents with macOS. The response must not be logged, cached or stored.",
			Handler:     route.On(s.builds.LoadJob, s.postVNC),
		},
		{
			Path: "/ssh-session", Summary: "Open a shell on the agent of a job",
			Description: "For running command jobs on hosted agents with macOS or Linux. The response must not be logged, cached or stored.",
			Handler:     route.On(s.builds.LoadJob, s.postSSH),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Method, r.Path, r.Tag = http.MethodPost, "/v2/organizations/{org}/jobs/{job}"+r.Path, "Jobs"
		r.Scope, r.Permission = identity.WriteBuilds, identity.ManageHostedAgents
		r.Errors = []int{http.StatusUnprocessableEntity}
	}
	return routes
}

// sessionView has the fields of both kinds of sessions.
type sessionView struct {
	Endpoint    string    `json:"endpoint" doc:"A WebSocket URL."`
	AccessToken string    `json:"access_token" doc:"Authenticates at the endpoint for a short time."`
	ExpiresAt   core.Time `json:"expires_at"`
}

type vncSessionView struct {
	sessionView
	VNC vncLoginView `json:"vnc"`
}

type vncLoginView struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type sshSessionView struct {
	sessionView
	Transport sshTransport `json:"transport"`
	SSH       sshLoginView `json:"ssh"`
}

type sshLoginView struct {
	Username   string   `json:"username"`
	PrivateKey string   `json:"private_key"`
	HostKeys   []string `json:"host_keys" doc:"Public host keys on Linux. Empty on macOS."`
}

// sshTransport is the transport of an SSH session.
type sshTransport string

// Values lists the transports of Linux and of macOS.
func (sshTransport) Values() []string { return []string{"tcp", "namespace_ingress"} }

func (s *Service) postVNC(r *route.Request, j *builds.Job) (vncSessionView, error) {
	return vncSessionView{}, s.open(r, j, vnc)
}

func (s *Service) postSSH(r *route.Request, j *builds.Job) (sshSessionView, error) {
	return sshSessionView{}, s.open(r, j, ssh)
}

// open opens a session into the machine of a job, or returns why it cannot.
func (s *Service) open(r *route.Request, j *builds.Job, a access) error {
	r.SetHeader("Cache-Control", "no-store")
	err := s.db.Read(r.Context(), func(q *db.Q) error { return a.check(q, r.Org, j) })
	if err != nil {
		return err
	}
	return errNoProvider
}
