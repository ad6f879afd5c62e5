package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// errNothing is the error for pages of an organization that does not exist or that the visitor cannot see, so
// that the two cannot be distinguished.
var errNothing = core.Errorf(core.NotFound, "This page does not exist, or you do not have access to it.")

// within returns a handler for pages of the organization {org} in the path. Visitors who are not signed in, or
// not members, see what is public; what the handler loads decides that. If they cannot see it and are not
// signed in, they are asked to sign in.
func within(h handler) handler {
	return func(v *visit) error {
		err := v.enter()
		if err == nil {
			err = h(v)
		}
		if core.KindOf(err) != core.NotFound {
			return err
		}
		switch {
		case !strings.Contains(v.Header.Get("Accept"), "text/html"): // a program
			return core.Errorf(core.NotFound, "Not Found: there is nothing at %s", v.URL.Path)
		case v.session == nil && v.Method == http.MethodGet:
			return v.redirect("/login?" + url.Values{"return_to": {v.URL.RequestURI()}}.Encode())
		}
		return errNothing
	}
}

// enter loads the organization in the path and the visitor's membership.
func (v *visit) enter() (err error) {
	if query, err := url.QueryUnescape(v.URL.RawQuery); err != nil || !utf8.ValidString(query) || strings.ContainsRune(query, 0) {
		return core.Errorf(core.BadRequest, "The address contains invalid characters.")
	}
	if v.Caller == nil {
		v.Caller = &identity.Caller{}
	}
	if v.Org, err = v.site.Directory.Organization(v.Context(), v.PathValue("org")); err != nil {
		return err
	}
	v.Member = v.Caller.Membership(v.Org.ID)
	if v.Org.Suspended {
		if v.Member == nil {
			return errNothing
		}
		return core.Errorf(core.Unavailable, "This organization is temporarily unavailable.")
	}
	return nil
}
