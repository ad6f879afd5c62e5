package pages

import (
	"encoding/base64"
	"net/http"
	"time"

	"stackyard/internal/domain/account"
)

// Cookies are the cookies of pages. Their names and attributes depend on the public URL: over https, name
// prefixes make browsers guarantee that this host set them over an encrypted connection.
type Cookies struct {
	Session string
	flash   string
	OIDC    string
	Connect string
	path    string
	secure  bool
}

func newCookies(https bool, prefix string) Cookies {
	mark := ""
	switch {
	case https && prefix == "":
		mark = "__Host-"
	case https:
		mark = "__Secure-" // __Host- would make them visible to every path of the host
	}
	return Cookies{
		Session: mark + "stackyard",
		flash:   mark + "stackyard-said",
		OIDC:    mark + "stackyard-oidc",
		Connect: mark + "stackyard-connect",
		path:    prefix + "/",
		secure:  https,
	}
}

// Set sets a cookie that scripts cannot read and that browsers send with requests from other sites only when a
// link is followed.
func (c Cookies) Set(w http.ResponseWriter, name, value string, life time.Duration) {
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

// SetSession sets the cookie of a session.
func (c Cookies) SetSession(w http.ResponseWriter, value string) {
	c.Set(w, c.Session, value, account.MaxLifetime)
}

// Clear removes a cookie.
func (c Cookies) Clear(w http.ResponseWriter, name string) { c.Set(w, name, "", -time.Second) }

// flashLife is longer than following a redirect takes.
const flashLife = time.Minute

// The first byte of a stored message says whether it reports a success.
const flashDone, flashRefused = "+", "-"

// setFlash stores a message for the next page.
func (c Cookies) setFlash(w http.ResponseWriter, message string) {
	c.Set(w, c.flash, base64.RawURLEncoding.EncodeToString([]byte(message)), flashLife)
}

// takeFlash returns the message for this page and removes it.
func (v *Visit) takeFlash() (done, refused string) {
	kept := v.CookieValue(v.Site.Cookies.flash)
	if kept == "" {
		return "", ""
	}
	v.Site.Cookies.Clear(v.W, v.Site.Cookies.flash)
	message, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || len(message) == 0 {
		return "", ""
	}
	if text := string(message[1:]); string(message[:1]) == flashDone {
		return text, ""
	} else {
		return "", text
	}
}
