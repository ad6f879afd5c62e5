package route

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// admit runs the checks before the resource is loaded.
func (s *Server) admit(r *Request) error {
	err := s.authenticate(r)
	if err == nil {
		err = s.check(r)
	}
	if !r.limitShown { // every response has the headers, also of requests that fail early
		r.showLimit()
	}
	return err
}

// check runs the checks of an authenticated request before the resource is loaded.
func (s *Server) check(r *Request) error {
	if err := s.enterOrganization(r); err != nil {
		return err
	}
	if err := s.limit(r); err != nil {
		return err
	}
	if err := s.authorize(r); err != nil {
		return err
	}
	if r.URL.RawQuery != "" && r.route.Query != nil {
		if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil && !storable(query) {
			return core.Errorf(core.BadRequest, "The query holds the character U+0000, or bytes that are not UTF-8")
		}
	}
	return nil
}

// authorize checks the scope of the caller's token and the caller's permission.
func (s *Server) authorize(r *Request) error {
	route := r.route
	if route.Auth == Bearer && route.Scope != NoScope && !r.Caller.HasScope(route.Scope) {
		return core.Errorf(core.Forbidden, "Forbidden: your access token needs the scope %s", route.Scope)
	}
	if p := route.Permission; p != "" && !route.Handler.guarded && !r.Member.Can(p, r.Org) {
		return forbidden(p)
	}
	return nil
}

func (s *Server) authenticate(r *Request) (err error) {
	switch r.route.Auth {
	case Bearer:
		r.Caller, err = s.directory.Authenticate(r.Context(), credential(r.Request, "Bearer"))
		r.challenge("Bearer", err)
		if err == nil && s.used != nil {
			s.used(r.Caller.Token.ID, r.Address)
		}
	case Agent:
		r.Agent, err = s.directory.AuthenticateAgent(r.Context(), credential(r.Request, "Token"), r.Address)
		r.challenge("Token", err)
	case Registration:
		r.Agent, r.Acquisition, err = s.registrations(r.Context(), credential(r.Request, "Token"), r.Address)
		r.challenge("Token", err)
	case Session, Job:
		r.Session, err = s.sessions(r.Context(), credential(r.Request, "Token"))
		if err == nil && r.Session.JobID != "" && r.route.Auth == Session {
			err = core.Errorf(core.Forbidden, "This endpoint needs the token of an agent, not of a job")
		}
		r.challenge("Token", err)
	}
	return err
}

func (r *Request) challenge(scheme string, err error) {
	if core.KindOf(err) == core.Unauthorized {
		r.SetHeader("WWW-Authenticate", scheme+` realm="Stackyard"`)
	}
}

// credential returns the value after a scheme in the Authorization header, or "".
func credential(hr *http.Request, scheme string) string {
	got, value, _ := strings.Cut(hr.Header.Get("Authorization"), " ")
	if !strings.EqualFold(got, scheme) {
		return ""
	}
	return strings.TrimSpace(value)
}

// suspendedRetry is when a client of a suspended organization can retry, in seconds.
const suspendedRetry = 60

func (s *Server) enterOrganization(r *Request) (err error) {
	if r.Agent != nil {
		r.Org = &r.Agent.Organization
	} else if r.Session != nil {
		r.Org = &r.Session.Organization
	} else if slug := r.PathValue("org"); slug != "" {
		if r.Org, err = s.directory.Organization(r.Context(), slug); err != nil {
			return err
		}
		r.Member = r.Caller.Membership(r.Org.ID)
		if r.Member == nil && !r.route.Visitors {
			return core.Errorf(core.NotFound, "No organization found")
		}
	}
	if r.Org != nil && r.Org.Suspended {
		return &core.Error{Kind: core.Unavailable, Message: "This organization is temporarily unavailable", RetryAfter: suspendedRetry}
	}
	return nil
}

// clientAddress returns the address that the request came from. Each trusted proxy vouches for the address that
// it adds to X-Forwarded-For, so the list is read from its end as long as the previous address is trusted.
func (s *Server) clientAddress(hr *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(hr.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := from.Addr().Unmap()
	if len(s.proxies) == 0 {
		return address
	}
	forwarded := strings.Split(strings.Join(hr.Header.Values("X-Forwarded-For"), ","), ",")
	for _, next := range slices.Backward(forwarded) {
		if !slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(address) }) {
			break
		}
		parsed, err := netip.ParseAddr(strings.TrimSpace(next))
		if err != nil {
			break
		}
		address = parsed.Unmap()
	}
	return address
}
