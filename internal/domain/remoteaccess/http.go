package remoteaccess

import (
	"net/http"
	"slices"

	"stackyard/internal/domain/account"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of remote sessions.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Path: "/vnc-session", Summary: "Open a remote desktop on the agent of a job",
			Description: "For running command jobs on hosted agents with macOS. The response must not be logged, cached or stored.",
			Handler:     route.On(s.Builds.LoadJob, s.postVNC),
		},
		{
			Path: "/ssh-session", Summary: "Open a shell on the agent of a job",
			Description: "For running command jobs on hosted agents with macOS or Linux. The response must not be logged, cached or stored.",
			Handler:     route.On(s.Builds.LoadJob, s.postSSH),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Method, r.Path, r.Tag = http.MethodPost, "/v2/organizations/{org}/jobs/{job}"+r.Path, "Jobs"
		r.Scope, r.Permission = identity.WriteBuilds, identity.ManageHostedAgents
		r.Errors = []int{http.StatusUnprocessableEntity}
	}
	return slices.Concat(routes, s.agentRoutes(), s.userRoutes())
}

// sessionView has the fields of both kinds of sessions.
type sessionView struct {
	Endpoint    string    `json:"endpoint" doc:"A WebSocket URL."`
	AccessToken string    `json:"access_token" doc:"Authenticates at the endpoint, once."`
	ExpiresAt   core.Time `json:"expires_at" doc:"When the access token expires."`
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
	o, err := s.openFor(r, j, Desktop)
	if err != nil {
		return vncSessionView{}, err
	}
	return vncSessionView{s.view(o), vncLoginView{o.Username, o.Password}}, nil
}

func (s *Service) postSSH(r *route.Request, j *builds.Job) (sshSessionView, error) {
	o, err := s.openFor(r, j, Shell)
	if err != nil {
		return sshSessionView{}, err
	}
	v := sshSessionView{s.view(o), "tcp", sshLoginView{o.Username, o.PrivateKey, []string{o.HostKey}}}
	if o.platform == clusters.MacOS {
		v.Transport, v.SSH.HostKeys = "namespace_ingress", []string{}
	}
	return v, nil
}

// openFor opens a session for the caller of a request.
func (s *Service) openFor(r *route.Request, j *builds.Job, kind Kind) (*Opened, error) {
	r.SetHeader("Cache-Control", "no-store")
	by := Opener{User: r.Caller.User}
	err := s.DB.Read(r.Context(), func(q *db.Q) (err error) {
		by.With, err = account.TokenCredential(q, r.Caller.Token.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.Open(r.Context(), r.Org, j, by, kind)
}

func (s *Service) view(o *Opened) sessionView {
	return sessionView{s.Endpoint(o.ID), o.Token, core.At(o.ExpiresAt)}
}
