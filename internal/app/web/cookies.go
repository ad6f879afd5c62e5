package web

import (
	"encoding/base64"
	"net/http"
	"time"

	"stackyard/internal/domain/account"
)

// cookies are those that pages set. Their names and marks depend on how people reach the server: over
// https the names promise to browsers that nobody but this host set them, over an encrypted connection.
type cookies struct {
	session string
	flash   string
	oidc    string
	path    string
	secure  bool
}

func newCookies(https bool, prefix string) cookies {
	mark := ""
	switch {
	case https && prefix == "":
		mark = "__Host-"
	case https:
		mark = "__Secure-" // the stronger promise would let every path of the host see them
	}
	return cookies{
		session: mark + "stackyard",
		flash:   mark + "stackyard-said",
		oidc:    mark + "stackyard-oidc",
		path:    prefix + "/",
		secure:  https,
	}
}

// set sets a cookie that scripts cannot read and that other sites cannot make browsers send along with
// anything but a link.
func (c cookies) set(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name:     name,
		Value:    value,
		Path:     c.path,
		MaxAge:   int(life / time.Second),
		HttpOnly: true,
		Secure:   c.secure,
		SameSite: http.SameSiteLaxMode,
	})
}

func (c cookies) setSession(w http.ResponseWriter, value string) {
	c.set(w, c.session, value, account.MaxLifetime)
}

// clear removes a cookie.
func (c cookies) clear(w http.ResponseWriter, name string) { c.set(w, name, "", -time.Second) }

// flashLife is longer than it takes to follow a redirect.
const flashLife = time.Minute

// setFlash keeps a message for the page that is shown next.
func (c cookies) setFlash(w http.ResponseWriter, message string) {
	c.set(w, c.flash, base64.RawURLEncoding.EncodeToString([]byte(message)), flashLife)
}

// takeFlash returns the message for this page, which is thereby told.
func (v *visit) takeFlash() string {
	kept := v.cookie(v.site.cookies.flash)
	if kept == "" {
		return ""
	}
	v.site.cookies.clear(v.w, v.site.cookies.flash)
	message, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil {
		return ""
	}
	return string(message)
}
