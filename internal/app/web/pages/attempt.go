package pages

import (
	"encoding/json"
	"net/http"
	"time"
)

// AttemptLife limits the time that a visitor can spend at another site before returning to this one.
const AttemptLife = 10 * time.Minute

// KeepSealed stores a value encrypted in a cookie for AttemptLife.
func (v *Visit) KeepSealed(cookie string, value any, context string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	sealed, err := v.Site.Key.Seal(text, context)
	if err != nil {
		return err
	}
	v.Site.Cookies.Set(v.W, cookie, sealed, AttemptLife)
	return nil
}

// TakeSealed reads a value that KeepSealed stored, and removes the cookie. It reports whether there was one.
func (v *Visit) TakeSealed(cookie string, value any, context string) bool {
	sealed := v.CookieValue(cookie)
	if sealed == "" {
		return false
	}
	v.Site.Cookies.Clear(v.W, cookie)
	text, err := v.Site.Key.Open(sealed, context)
	return err == nil && json.Unmarshal(text, value) == nil
}

// Leave redirects the browser to another site.
func (v *Visit) Leave(url string) error {
	v.W.Header().Set("Location", url)
	v.W.WriteHeader(http.StatusSeeOther)
	return nil
}
