package pages

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// ErrNothing is the error for pages of an organization that does not exist or that the visitor cannot see, so
// that the two cannot be distinguished.
var ErrNothing = core.Errorf(core.NotFound, "This page does not exist, or you do not have access to it.")

// Within returns a Handler for pages of the organization {org} in the path. Visitors who are not signed in, or
// not members, see what is public; what the Handler loads decides that. If they cannot see it and are not
// signed in, they are asked to sign in.
func Within(h Handler) Handler {
	return func(v *Visit) error {
		err := v.Enter()
		if err == nil {
			err = h(v)
		}
		if core.KindOf(err) != core.NotFound {
			return err
		}
		switch {
		case !strings.Contains(v.Header.Get("Accept"), "text/html"): // a program
			return core.Errorf(core.NotFound, "Not Found: there is nothing at %s", v.URL.Path)
		case v.Session == nil && v.Method == http.MethodGet:
			return v.Redirect("/login?" + url.Values{"return_to": {v.URL.RequestURI()}}.Encode())
		}
		return ErrNothing
	}
}

// Enter loads the organization in the path and the visitor's Membership.
func (v *Visit) Enter() (err error) {
	if query, err := url.QueryUnescape(v.URL.RawQuery); err != nil || !utf8.ValidString(query) || strings.ContainsRune(query, 0) {
		return core.Errorf(core.BadRequest, "The address contains invalid characters.")
	}
	if v.Caller == nil {
		v.Caller = &identity.Caller{}
	}
	if v.Org, err = v.Site.Directory.Organization(v.Context(), v.PathValue("org")); err != nil {
		return err
	}
	v.Member = v.Caller.Membership(v.Org.ID)
	if v.Org.Suspended {
		if v.Member == nil {
			return ErrNothing
		}
		return core.Errorf(core.Unavailable, "This organization is temporarily unavailable.")
	}
	return nil
}

// MembersOnly returns a handler for members of the organization.
func MembersOnly(h Handler) Handler {
	return Within(func(v *Visit) error {
		if v.Member == nil {
			return ErrNothing
		}
		return h(v)
	})
}
