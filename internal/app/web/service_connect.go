package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"time"

	"golang.org/x/oauth2"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// A connectAttempt is the state of connecting a service, stored encrypted in a cookie. Only the browser that started it
// can complete it.
type connectAttempt struct {
	State        string
	Verifier     string
	UserID       string
	Organization string // slug
	Provider     string
	EndsAt       time.Time
}

const connectContext = "connecting a notification service"

func (s *Site) connectService(v *visit) error {
	org, err := v.serviceOrganization(v.PathValue("organization"))
	if err != nil {
		return err
	}
	c := connectAttempt{
		State:        rand.Text(),
		Verifier:     oauth2.GenerateVerifier(),
		UserID:       v.user().ID,
		Organization: org.Slug,
		Provider:     v.PathValue("provider"),
		EndsAt:       s.Clock().Add(attemptLife),
	}
	to, err := s.Notifications.AuthorizeURL(notifications.ProviderByID(c.Provider), c.State, c.Verifier)
	if err != nil {
		return err
	}
	if err := v.keepSealed(s.cookies.connect, c, connectContext); err != nil {
		return err
	}
	return v.sendBack(to, nil)
}

// keepSealed stores a value encrypted in a cookie for attemptLife.
func (v *visit) keepSealed(cookie string, value any, context string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	sealed, err := v.site.Key.Seal(text, context)
	if err != nil {
		return err
	}
	v.site.cookies.set(v.w, cookie, sealed, attemptLife)
	return nil
}

// takeConnectAttempt returns the attempt in the browser's cookie and ends it.
func (v *visit) takeConnectAttempt() (c connectAttempt, ok bool) {
	kept := v.cookie(v.site.cookies.connect)
	if kept == "" {
		return c, false
	}
	v.site.cookies.clear(v.w, v.site.cookies.connect)
	text, err := v.site.Key.Open(kept, connectContext)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return c, false
	}
	same := subtle.ConstantTimeCompare([]byte(v.FormQuery("state")), []byte(c.State)) == 1
	return c, same && c.UserID == v.user().ID && v.site.Clock().Before(c.EndsAt)
}

func (s *Site) serviceConnected(v *visit) error {
	c, ok := v.takeConnectAttempt()
	if !ok {
		return core.Errorf(core.BadRequest, "This connection was started in another browser or took too long. Connect again.")
	}
	org, err := v.serviceOrganization(c.Organization)
	if err != nil {
		return err
	}
	p := notifications.ProviderByID(c.Provider)
	if why := v.FormQuery("error"); why != "" {
		return core.Errorf(core.Forbidden, "%s was not connected. It says: %.200q", p.Name, why)
	}
	r, err := s.Notifications.FinishConnecting(v.Context(), &org.Organization, v.user(), p, v.FormQuery("code"), c.Verifier)
	if err != nil {
		return err
	}
	return v.done(servicePath(org, r), p.Name+" connected.")
}
