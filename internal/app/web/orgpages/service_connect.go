package orgpages

import (
	"crypto/rand"
	"crypto/subtle"
	"time"

	"golang.org/x/oauth2"

	"stackyard/internal/app/web/pages"
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

func (s *Site) connectService(v *pages.Visit) error {
	org, err := serviceOrganization(v, v.PathValue("organization"))
	if err != nil {
		return err
	}
	c := connectAttempt{
		State:        rand.Text(),
		Verifier:     oauth2.GenerateVerifier(),
		UserID:       v.User().ID,
		Organization: org.Slug,
		Provider:     v.PathValue("provider"),
		EndsAt:       s.Clock().Add(pages.AttemptLife),
	}
	to, err := s.Notifications.AuthorizeURL(notifications.ProviderByID(c.Provider), c.State, c.Verifier)
	if err != nil {
		return err
	}
	if err := v.KeepSealed(s.Cookies.Connect, c, connectContext); err != nil {
		return err
	}
	return v.Leave(to)
}

// takeConnectAttempt returns the attempt in the browser's cookie and ends it.
func (s *Site) takeConnectAttempt(v *pages.Visit) (c connectAttempt, ok bool) {
	if !v.TakeSealed(s.Cookies.Connect, &c, connectContext) {
		return c, false
	}
	same := subtle.ConstantTimeCompare([]byte(v.FormQuery("state")), []byte(c.State)) == 1
	return c, same && c.UserID == v.User().ID && s.Clock().Before(c.EndsAt)
}

func (s *Site) serviceConnected(v *pages.Visit) error {
	c, ok := s.takeConnectAttempt(v)
	if !ok {
		return core.Errorf(core.BadRequest, "This connection was started in another browser or took too long. Connect again.")
	}
	org, err := serviceOrganization(v, c.Organization)
	if err != nil {
		return err
	}
	p := notifications.ProviderByID(c.Provider)
	if why := v.FormQuery("error"); why != "" {
		return core.Errorf(core.Forbidden, "%s was not connected. It says: %.200q", p.Name, why)
	}
	r, err := s.Notifications.FinishConnecting(v.Context(), &org.Organization, v.User(), p, v.FormQuery("code"), c.Verifier)
	if err != nil {
		return err
	}
	return v.Done(servicePath(org, r), p.Name+" connected.")
}
