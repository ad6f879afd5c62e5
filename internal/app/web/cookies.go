package web

import (
	"encoding/base64"
	"net/http"
	"time"

	"stackyard/internal/domain/account"
)

// cookies are the cookies of pages. Their names and attributes depend on the public URL: over https, name
// prefixes make browsers guarantee that this host set them over an encrypted connection.
type cookies struct {
	session string
	flash   string
	oidc    string
	connect string
	path    string
	secure  bool
}

func newCookies(https bool, prefix string) cookies {
	mark := ""
	switch {
	case https && prefix == "":
		mark = "__Host-"
	case https:
		mark = "__Secure-" // __Host- would make them visible to every path of the host
	}
	return cookies{
		session: mark + "stackyard",
		flash:   mark + "stackyard-said",
		oidc:    mark + "stackyard-oidc",
		connect: mark + "stackyard-connect",
		path:    prefix + "/",
		secure:  https,
	}
}

// set sets a cookie that scripts cannot read and that browsers send with requests from other sites only when a
// link is followed.
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

// flashLife is longer than following a redirect takes.
const flashLife = time.Minute

// setFlash stores a message for the next page.
func (c cookies) setFlash(w http.ResponseWriter, message string) {
	c.set(w, c.flash, base64.RawURLEncoding.EncodeToString([]byte(message)), flashLife)
}

// takeFlash returns the message for this page and removes it.
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
