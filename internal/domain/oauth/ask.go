package oauth

import (
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// authorizationQuery are the parameters of a visit to /oauth/authorize.
type authorizationQuery struct {
	ResponseType        string `json:"response_type"`
	ClientID            string `json:"client_id"`
	RedirectURI         string `json:"redirect_uri"`
	Scope               string `json:"scope"`
	State               string `json:"state"`
	CodeChallenge       string `json:"code_challenge"`
	CodeChallengeMethod string `json:"code_challenge_method"`
	Organization        string `json:"organization"`
	OrganizationUUID    string `json:"organization_uuid"`
}

func authorizationAsk(query url.Values) (ask authorizationQuery, err error) {
	if err := route.DecodeForm(query, &ask); err != nil {
		return ask, err
	}
	if ask.ClientID == "" || ask.RedirectURI == "" {
		return ask, core.Errorf(core.BadRequest, "The application that sent you here did not send a client_id or a redirect_uri.")
	}
	return ask, nil
}

// ask returns the requested scopes, each once, or an invalid_scope error.
func (a Application) ask(scope string) (identity.Scopes, error) {
	var asked identity.Scopes
	for name := range strings.FieldsSeq(scope) {
		s := identity.Scope(name)
		switch {
		case s == identity.EveryScope:
			return nil, errorf(invalidScope, "Scopes must be asked for by name; * is none.")
		case !s.Valid():
			return nil, errorf(invalidScope, "There is no scope %q.", name)
		case !a.Scopes.Has(s):
			return nil, errorf(invalidScope, "This application may not ask for the scope %s.", name)
		case !slices.Contains(asked, s):
			asked = append(asked, s)
		}
	}
	if len(asked) == 0 {
		return nil, errorf(invalidScope, "scope is missing: it names at least one scope, with spaces between several.")
	}
	return asked, nil
}

// hint returns the id of the organization that a request names by UUID or slug, or empty.
func hint(q *db.Q, uuid, slug string) (string, error) {
	if id, ok := core.ParseID(uuid); ok {
		found, err := organizationID(q, `id = $1`, id)
		if found != "" || err != nil {
			return found, err
		}
	}
	if core.ValidSlug(slug) {
		return organizationID(q, `slug = $1`, slug)
	}
	return "", nil
}

func organizationID(q *db.Q, condition, arg string) (string, error) {
	ids, err := db.Strings(q, `SELECT id FROM organizations WHERE `+condition, arg)
	if len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}
