package suites

import (
	"errors"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

const noSuite = "No suite found"

const suiteColumns = `
		s.id, s.organization_id, s.slug, s.name, s.default_branch, s.application_name, s.color, s.emoji,
		s.oidc_policy, s.token, s.created_at`

// scanSuite reads whether the suite is editable, then suiteColumns.
func scanSuite(scan db.Scan) (*Suite, error) {
	var s Suite
	var policy string
	err := scan(&s.editable,
		&s.ID, &s.OrganizationID, &s.Slug, &s.Name, &s.DefaultBranch, db.ToText(&s.ApplicationName), db.ToText(&s.Color), db.ToText(&s.Emoji),
		db.ToText(&policy), &s.sealedToken, db.ToTime(&s.CreatedAt))
	s.Policy = PolicyDocument(policy)
	return &s, err
}

// BySlug returns the suite with a slug, or a NotFound error when there is none that the viewer can see.
func BySlug(q *db.Q, v Viewer, slug string) (*Suite, error) {
	return oneSuite(q, v, "s.slug = %s", slug)
}

// byID returns the suite with an id, or a NotFound error when there is none that the viewer can see.
func byID(q *db.Q, v Viewer, id string) (*Suite, error) {
	return oneSuite(q, v, "s.id = %s", id)
}

func oneSuite(q *db.Q, v Viewer, condition, value string) (*Suite, error) {
	var s db.Statement
	v.visible(q, &s)
	s.Where(condition, value)
	suite, err := db.One(q, scanSuite, `
		SELECT `+v.editable(q, &s)+`, `+suiteColumns+`
		FROM suites s
		`+s.Clause(), s.Args()...)
	return suite, found(err)
}

// found converts a query without rows into a NotFound error.
func found(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, noSuite)
	}
	return err
}

// list returns a page of the suites that the viewer can see, oldest first, and the total.
func list(q *db.Q, v Viewer, limit, offset int) ([]*Suite, int, error) {
	return listWhere(q, v, func(*db.Statement) {}, limit, offset)
}

// listWhere is list of the suites that meet further conditions.
func listWhere(q *db.Q, v Viewer, restrict func(*db.Statement), limit, offset int) ([]*Suite, int, error) {
	var s db.Statement
	v.visible(q, &s)
	restrict(&s)
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM suites s `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	suites, err := db.All(q, scanSuite, `
		SELECT `+v.editable(q, &s)+`, `+suiteColumns+`
		FROM suites s
		`+s.Clause()+`
		ORDER BY s.created_at, s.id
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return suites, total, err
}

// namesLock is the name of the lock for giving a suite of an organization a name or slug.
func namesLock(organizationID string) string { return "suite names of " + organizationID }

// insert adds a suite with its token.
func insert(q *db.Q, s *Suite, token string) error {
	_, err := suiteRows.Exec(q, s.ID, `
		INSERT INTO suites (id, organization_id, slug, name, name_folded, default_branch, application_name, color, emoji,
			oidc_policy, token_hash, token, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		s.ID, s.OrganizationID, s.Slug, s.Name, strings.ToLower(s.Name), s.DefaultBranch, db.Text(s.ApplicationName), db.Text(s.Color), db.Text(s.Emoji),
		db.Text(string(s.Policy)), seal.HashToken(token), s.sealedToken, db.Micros(s.CreatedAt))
	return err
}

// update writes what can be changed about a suite.
func update(q *db.Q, s *Suite) error {
	_, err := suiteRows.Exec(q, s.ID, `
		UPDATE suites SET name = $2, name_folded = $3, default_branch = $4, application_name = $5, color = $6, emoji = $7, oidc_policy = $8
		WHERE id = $1`,
		s.ID, s.Name, strings.ToLower(s.Name), s.DefaultBranch, db.Text(s.ApplicationName), db.Text(s.Color), db.Text(s.Emoji), db.Text(string(s.Policy)))
	return err
}

// grant gives teams full access to a suite.
func grant(q *db.Q, s *Suite, teamIDs []string) error {
	return db.InsertMany(q, `INSERT INTO team_suites (team_id, suite_id, can_edit, created_at)`, teamIDs,
		func(id string) []any { return []any{id, s.ID, true, db.Micros(s.CreatedAt)} }, "ON CONFLICT DO NOTHING")
}

// markDeleted hides a suite from everyone, ends its token, and frees its name and slug.
func markDeleted(q *db.Q, s *Suite, now time.Time) error {
	_, err := suiteRows.Exec(q, s.ID, `
		UPDATE suites SET deleted_at = $2, token_hash = NULL, name_folded = $3, slug = $3
		WHERE id = $1 AND deleted_at IS NULL`, s.ID, db.Micros(now), "deleted "+core.NewID())
	return err
}
