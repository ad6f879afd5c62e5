package accountpages

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
)

func (s *Site) tokens(v *pages.Visit) error {
	list, err := s.Accounts.Tokens(v.Context(), v.User().ID)
	if err != nil {
		return err
	}
	type shown struct {
		account.AccessToken
		Expired bool
		Asked   requestedScopes
	}
	page := make([]shown, len(list))
	for i, t := range list {
		page[i] = shown{t, !t.ExpiresAt.IsZero() && !s.Clock().Before(t.ExpiresAt), describeScopes(t.Scopes)}
	}
	return v.Show(http.StatusOK, "tokens", pages.View{Title: "Access tokens", Section: "tokens", Page: page})
}

// A lifetime is an option for the expiry of a token.
type lifetime struct {
	Value string
	Text  string
	days  int // 0: no expiry
}

var lifetimes = []lifetime{
	{"7", "7 days", 7}, {"30", "30 days", 30}, {"90", "90 days", 90}, {"365", "a year", 365}, {"never", "no expiry", 0},
}

// tokenForm is the data of the page that creates a token.
type tokenForm struct {
	Description   string
	Scopes        scopeForm
	Organizations []pages.Membership
	Chosen        []string // ids of the chosen organizations
	Lifetimes     []lifetime
	Lifetime      string
	Problems      pages.Problems
}

// Reaches reports whether an organization is chosen.
func (f tokenForm) Reaches(id string) bool { return slices.Contains(f.Chosen, id) }

func (s *Site) newToken(v *pages.Visit) error {
	var chosen []string
	if orgs := v.Caller.Organizations(); len(orgs) == 1 {
		chosen = orgs
	}
	return s.showTokenForm(v, http.StatusOK, tokenForm{Scopes: newScopeForm(nil, nil), Chosen: chosen, Lifetime: "90"})
}

func (s *Site) showTokenForm(v *pages.Visit, status int, form tokenForm) (err error) {
	form.Lifetimes = lifetimes
	if form.Organizations, err = v.Organizations(); err != nil {
		return err
	}
	return v.Show(status, "token_new", pages.View{Title: "New access token", Section: "tokens", Page: form})
}

func (s *Site) createToken(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	request := account.TokenRequest{
		Description:     form.Get("description"),
		Scopes:          formScopes(form["scopes"]),
		OrganizationIDs: form["organizations"],
	}
	var value string
	var token account.AccessToken
	if request.ExpiresAt, err = expiry(form, s.Clock()); err == nil {
		value, token, err = s.Accounts.CreateToken(v.Context(), v.User().ID, request)
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showTokenForm(v, http.StatusUnprocessableEntity, tokenForm{
			Description: request.Description, Scopes: newScopeForm(request.Scopes, wrong), Chosen: request.OrganizationIDs, Lifetime: form.Get("expires"), Problems: wrong,
		})
	}
	if err != nil {
		return err
	}
	return v.Show(http.StatusCreated, "secret", pages.View{Title: "Your new access token", Section: "tokens", Page: pages.Secret{
		Of: token.Description, Value: value, Back: "/settings/tokens", BackTo: "Access tokens",
		Use: `curl -H "Authorization: Bearer ` + value + `" ` + s.Public.To("v2", "access-token"),
	}})
}

// expiry returns when a token created now expires; zero for never.
func expiry(form url.Values, now time.Time) (time.Time, error) {
	for _, l := range lifetimes {
		switch {
		case l.Value != form.Get("expires"):
		case l.days == 0:
			return time.Time{}, nil
		default:
			return now.AddDate(0, 0, l.days), nil
		}
	}
	return time.Time{}, core.Problems{{Field: "expires", Code: "must be one of those offered"}}.Err()
}

func (s *Site) revokeToken(v *pages.Visit) error {
	id, err := v.PathID("token", "Access token not found. It may already be revoked.")
	if err != nil {
		return err
	}
	if err := s.Accounts.RevokeToken(v.Context(), v.User().ID, id); err != nil {
		return err
	}
	return v.Done("/settings/tokens", "Access token revoked.")
}
