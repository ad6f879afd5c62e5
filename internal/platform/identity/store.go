package identity

import (
	"errors"
	"net/netip"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// UserColumns are the columns that ScanUser reads, of a table or join named u.
const UserColumns = `u.id, u.email, u.name, u.created_at`

// UserDest returns where to scan UserColumns into. After a left join without a user all columns are NULL, and
// the user stays zero.
func UserDest(u *User) []any {
	return []any{db.ToText(&u.ID), db.ToText(&u.Email), db.ToText(&u.Name), db.ToTime(&u.CreatedAt)}
}

// IDOrNull returns the value of a column that refers to a user: the id, or NULL for no user.
func (u *User) IDOrNull() any {
	if u == nil {
		return nil
	}
	return u.ID
}

// OrNil returns the user, or nil for the zero user that a left join leaves.
func (u User) OrNil() *User {
	if u.ID == "" {
		return nil
	}
	return &u
}

// AnyOrganization reports whether an organization exists.
func AnyOrganization(q *db.Q) (bool, error) {
	var exists bool
	err := q.QueryRow(`SELECT EXISTS (SELECT 1 FROM organizations)`).Scan(&exists)
	return exists, err
}

// ScanUser reads UserColumns.
func ScanUser(scan db.Scan) (User, error) {
	var u User
	return u, scan(UserDest(&u)...)
}

const organizationColumns = `o.id, o.slug, o.name, o.suspended, o.features, o.limits, o.created_at`

func organizationDest(o *Organization) []any {
	return []any{&o.ID, &o.Slug, &o.Name, &o.Suspended, db.ToJSON(&o.Features), db.ToJSON(&o.Limits), db.ToTime(&o.CreatedAt)}
}

func scanOrganization(scan db.Scan) (Organization, error) {
	// A switch that is newer than the row has its default.
	o := Organization{Features: DefaultFeatures}
	return o, scan(organizationDest(&o)...)
}

// OrganizationBySlug returns the organization with a slug, or a NotFound error.
func OrganizationBySlug(q *db.Q, slug string) (*Organization, error) {
	o, err := db.One(q, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.slug = $1`, slug)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, "No organization found")
	}
	return &o, err
}

// OrganizationByID returns the organization with an id, or a NotFound error.
func OrganizationByID(q *db.Q, id string) (*Organization, error) {
	o, err := db.One(q, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.id = $1`, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, "No organization found")
	}
	return &o, err
}

// OrganizationsByID returns one page of the organizations with these ids, by slug, and how many there are.
func OrganizationsByID(q *db.Q, ids []string, limit, offset int) ([]Organization, int, error) {
	in, arg := q.In("o.id", 1, ids)
	orgs, err := db.All(q, scanOrganization, `
		SELECT `+organizationColumns+`
		FROM organizations o
		WHERE `+in+`
		ORDER BY o.slug
		LIMIT $2 OFFSET $3`, arg, limit, offset)
	return orgs, len(ids), err
}

// OrganizationsOf returns the organizations that a user belongs to, by name.
func OrganizationsOf(q *db.Q, userID string) ([]Organization, error) {
	return db.All(q, scanOrganization, `
		SELECT `+organizationColumns+`
		FROM memberships m
		JOIN organizations o ON o.id = m.organization_id
		WHERE m.user_id = $1
		ORDER BY o.name, o.slug`, userID)
}

// limitsOf returns the value of the limits column, which is never NULL.
func limitsOf(o Organization) any {
	if len(o.Limits) == 0 {
		return "{}"
	}
	return string(o.Limits)
}

// Organizations returns all organizations, by id.
func Organizations(q *db.Q) ([]Organization, error) {
	return db.All(q, scanOrganization, `SELECT `+organizationColumns+` FROM organizations o ORDER BY o.id`)
}

// InsertOrganization adds an organization.
func InsertOrganization(q *db.Q, o Organization) error {
	_, err := organizationRows.Exec(q, o.ID, `
		INSERT INTO organizations (id, slug, name, suspended, features, limits, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		o.ID, o.Slug, o.Name, o.Suspended, db.JSON(o.Features), limitsOf(o), db.Micros(o.CreatedAt))
	return err
}

// UpdateOrganization writes everything about an organization except its id, slug and time of creation.
func UpdateOrganization(q *db.Q, o Organization) error {
	_, err := organizationRows.Exec(q, o.ID, `
		UPDATE organizations SET name = $2, suspended = $3, features = $4, limits = $5 WHERE id = $1`,
		o.ID, o.Name, o.Suspended, db.JSON(o.Features), limitsOf(o))
	return err
}

func loadCaller(q *db.Q, hash string) (*Caller, error) {
	c := Caller{memberships: make(map[string]*Membership)}
	t := &c.Token
	dest := append([]any{&t.ID, &t.UserID, &t.hash, &t.Description, db.ToJSON(&t.Scopes), db.ToTime(&t.CreatedAt), db.ToTime(&t.ExpiresAt)}, UserDest(&c.User)...)
	err := q.QueryRow(`
		SELECT t.id, t.user_id, t.hash, t.description, t.scopes, t.created_at, t.expires_at, `+UserColumns+`
		FROM access_tokens t
		JOIN users u ON u.id = t.user_id
		LEFT JOIN oauth_grants g ON g.id = t.grant_id
		LEFT JOIN oauth_applications a ON a.id = g.application_id
		WHERE t.hash = $1 AND COALESCE(a.enabled, TRUE)`, hash).Scan(dest...)
	if err != nil {
		return nil, err
	}
	memberships, err := db.All(q, scanMembership, `
		SELECT m.organization_id, m.role, m.permissions, m.sso_mode, m.created_at
		FROM access_token_organizations a
		JOIN memberships m ON m.organization_id = a.organization_id
		WHERE a.token_id = $1 AND m.user_id = $2`, t.ID, t.UserID)
	if err != nil {
		return nil, err
	}
	return &c, c.join(q, memberships)
}

// loadPerson returns a user as the caller of a session: in every organization, with every scope.
func loadPerson(q *db.Q, userID string) (*Caller, error) {
	user, err := db.One(q, ScanUser, `SELECT `+UserColumns+` FROM users u WHERE u.id = $1`, userID)
	if err != nil {
		return nil, err
	}
	memberships, err := db.All(q, scanMembership, `
		SELECT m.organization_id, m.role, m.permissions, m.sso_mode, m.created_at
		FROM memberships m
		WHERE m.user_id = $1`, userID)
	if err != nil {
		return nil, err
	}
	c := Caller{User: user, Token: AccessToken{UserID: userID, Scopes: Scopes{EveryScope}}, memberships: make(map[string]*Membership)}
	return &c, c.join(q, memberships)
}

// join adds memberships to a caller, with the teams in their organizations.
func (c *Caller) join(q *db.Q, memberships []Membership) error {
	for _, m := range memberships {
		c.memberships[m.OrganizationID] = &m
	}
	return db.Each(q, func(scan db.Scan) error {
		var org string
		var tm TeamMembership
		err := scan(&org, &tm.TeamID, &tm.Slug, &tm.Role, &tm.CanCreatePipelines, &tm.CanCreateSuites)
		if m := c.memberships[org]; m != nil {
			m.Teams = append(m.Teams, tm)
		}
		return err
	}, `
		SELECT t.organization_id, t.id, t.slug, tm.role, t.members_can_create_pipelines, t.members_can_create_suites
		FROM team_members tm
		JOIN teams t ON t.id = tm.team_id
		WHERE tm.user_id = $1
		ORDER BY t.slug`, c.User.ID)
}

func scanMembership(scan db.Scan) (Membership, error) {
	var m Membership
	return m, scan(&m.OrganizationID, &m.Role, db.ToJSON(&m.Permissions), &m.SSOMode, db.ToTime(&m.CreatedAt))
}

// loadAgentToken reads the agent token with a value in a column; the column is constant in the code.
func loadAgentToken(q *db.Q, column, value string) (*AgentToken, error) {
	t := AgentToken{Organization: Organization{Features: DefaultFeatures}}
	var allowed []netip.Prefix
	dest := append([]any{&t.ID, &t.hash, &t.Description, db.ToJSON(&allowed), db.ToTime(&t.ExpiresAt), &t.ClusterID, &t.ClusterName}, organizationDest(&t.Organization)...)
	err := q.QueryRow(`
		SELECT t.id, t.hash, t.description, t.allowed_ip_addresses, t.expires_at, c.id, c.name, `+organizationColumns+`
		FROM agent_tokens t
		JOIN clusters c ON c.id = t.cluster_id AND c.deleted_at IS NULL
		JOIN organizations o ON o.id = c.organization_id
		WHERE `+column+` = $1`, value).Scan(dest...)
	t.AllowedAddresses = allowed
	return &t, err
}
