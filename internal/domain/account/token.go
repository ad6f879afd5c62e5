package account

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// An AccessToken is a token that its user created, without its value.
type AccessToken struct {
	ID            string
	Description   string
	Scopes        identity.Scopes
	Organizations []string // names of the organizations it has access to
	CreatedAt     time.Time
	ExpiresAt     time.Time // zero: never
	// LastUsedAt and LastUsedAddress are of the latest use, accurate to a minute or two; zero for none.
	LastUsedAt      time.Time
	LastUsedAddress string
}

// A TokenRequest describes a new access token.
type TokenRequest struct {
	Description     string
	Scopes          identity.Scopes
	OrganizationIDs []string
	ExpiresAt       time.Time // zero: never
}

const (
	maxDescription = 255
	// maxTokens limits the access tokens that one user can create.
	maxTokens = 500
)

// Tokens returns the access tokens that a user created, latest first. It leaves out tokens of applications.
func (s *Service) Tokens(ctx context.Context, userID string) (list []AccessToken, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = tokensOf(q, userID)
		return err
	})
	return list, err
}

// CreateToken creates an access token and returns its value, which cannot be read again. Errors of kind
// Unprocessable have Fields.
func (s *Service) CreateToken(ctx context.Context, userID string, request TokenRequest) (value string, t AccessToken, err error) {
	t = AccessToken{
		ID:          core.NewID(),
		Description: strings.TrimSpace(request.Description),
		Scopes:      request.Scopes,
		CreatedAt:   s.clock(),
		ExpiresAt:   request.ExpiresAt,
	}
	value = seal.NewToken(identity.AccessTokenPrefix)
	err = s.directory.Change(ctx, func(q *db.Q) error {
		reached, err := s.checkTokenRequest(q, userID, request)
		if err != nil {
			return err
		}
		t.Organizations = nil
		var organizationIDs []string
		for _, o := range reached {
			t.Organizations = append(t.Organizations, o.Name)
			organizationIDs = append(organizationIDs, o.ID)
		}
		return InsertToken(q, StoredToken{
			ID:          t.ID,
			UserID:      userID,
			Hash:        seal.HashToken(value),
			Description: t.Description,
			Scopes:      t.Scopes,
			CreatedAt:   t.CreatedAt,
			ExpiresAt:   t.ExpiresAt,
		}, organizationIDs...)
	})
	return value, t, err
}

// checkTokenRequest returns the organizations of a requested token, or the problems of the request.
func (s *Service) checkTokenRequest(q *db.Q, userID string, request TokenRequest) ([]identity.Organization, error) {
	var p core.Problems
	switch n := utf8.RuneCountInString(strings.TrimSpace(request.Description)); {
	case n == 0:
		p.Add("description", "is required")
	case n > maxDescription:
		p.Add("description", "must not be longer than %d characters", maxDescription)
	}
	if unknown := request.Scopes.Unknown(); unknown != "" {
		p.Add("scopes", "must be known ones, and these are not: %s", unknown)
	}
	if len(request.Scopes) == 0 {
		p.Add("scopes", "must be at least one")
	}
	if !request.ExpiresAt.IsZero() && !request.ExpiresAt.After(s.clock()) {
		p.Add("expires", "must be in the future")
	}
	mine, err := identity.OrganizationsOf(q, userID)
	if err != nil {
		return nil, err
	}
	reached := selectByID(mine, request.OrganizationIDs)
	if len(reached) == 0 || len(reached) != len(request.OrganizationIDs) {
		p.Add("organizations", "must be at least one of yours")
	}
	if made, err := countTokens(q, userID); err != nil {
		return nil, err
	} else if made >= maxTokens {
		p.Add("description", "cannot be that of another token: you have %d, so revoke one first", made)
	}
	return reached, p.Err()
}

// selectByID returns the organizations with one of the ids.
func selectByID(orgs []identity.Organization, ids []string) (selected []identity.Organization) {
	for _, o := range orgs {
		for _, id := range ids {
			if o.ID == id {
				selected = append(selected, o)
			}
		}
	}
	return selected
}

// RevokeToken deletes an access token that a user created. It takes effect at once in this process and within a
// second in others.
func (s *Service) RevokeToken(ctx context.Context, userID, id string) error {
	return s.directory.Change(ctx, func(q *db.Q) error {
		ended, err := tokenRows.Exec(q, id, `DELETE FROM access_tokens WHERE id = $1 AND user_id = $2 AND grant_id IS NULL`, id, userID)
		if err == nil && ended == 0 {
			err = core.Errorf(core.NotFound, "You have no such access token. It may have been revoked already.")
		}
		return err
	})
}

func tokensOf(q *db.Q, userID string) ([]AccessToken, error) {
	tokens, err := db.All(q, scanToken, `
		SELECT id, description, scopes, created_at, expires_at, last_used_at, last_used_address
		FROM access_tokens
		WHERE user_id = $1 AND grant_id IS NULL
		ORDER BY created_at DESC, id DESC`, userID)
	if err != nil {
		return nil, err
	}
	type reach struct{ token, organization string }
	reached, err := db.All(q, func(scan db.Scan) (r reach, err error) { return r, scan(&r.token, &r.organization) }, `
		SELECT a.token_id, o.name
		FROM access_tokens t
		JOIN access_token_organizations a ON a.token_id = t.id
		JOIN organizations o ON o.id = a.organization_id
		WHERE t.user_id = $1 AND t.grant_id IS NULL
		ORDER BY o.name, o.slug`, userID)
	if err != nil {
		return nil, err
	}
	names := make(map[string][]string)
	for _, r := range reached {
		names[r.token] = append(names[r.token], r.organization)
	}
	for i := range tokens {
		tokens[i].Organizations = names[tokens[i].ID]
	}
	return tokens, nil
}

func scanToken(scan db.Scan) (t AccessToken, err error) {
	return t, scan(&t.ID, &t.Description, db.ToJSON(&t.Scopes), db.ToTime(&t.CreatedAt), db.ToTime(&t.ExpiresAt), db.ToTime(&t.LastUsedAt), db.ToText(&t.LastUsedAddress))
}

func countTokens(q *db.Q, userID string) (n int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM access_tokens WHERE user_id = $1 AND grant_id IS NULL`, userID).Scan(&n)
	return n, err
}
