package organizations

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noTeam = "No team found"

const selectTeam = `
	SELECT t.id, t.organization_id, t.slug, t.name, t.description, t.privacy, t.is_default, t.default_member_role,
		t.members_can_create_pipelines, t.members_can_create_suites, t.members_can_create_registries,
		t.members_can_destroy_registries, t.members_can_destroy_packages, t.created_at, ` + identity.UserColumns + `
	FROM teams t
	LEFT JOIN users u ON u.id = t.created_by`

func scanTeam(scan db.Scan) (Team, error) {
	var t Team
	var by identity.User
	err := scan(append([]any{
		&t.ID, &t.OrganizationID, &t.Slug, &t.Name, &t.Description, &t.Privacy, &t.Default, &t.DefaultMemberRole,
		&t.MembersCanCreatePipelines, &t.MembersCanCreateSuites, &t.MembersCanCreateRegistries,
		&t.MembersCanDestroyRegistries, &t.MembersCanDestroyPackages, db.ToTime(&t.CreatedAt),
	}, identity.UserDest(&by)...)...)
	t.CreatedBy = by.OrNil()
	return t, err
}

// visibleTeams is the condition that a viewer can see a team. Its parameters: the organization, whether the
// viewer sees all teams, and the viewer's user id.
const visibleTeams = `
	t.organization_id = $1
	AND (t.privacy <> 'secret' OR $2 OR EXISTS (SELECT 1 FROM team_members v WHERE v.team_id = t.id AND v.user_id = $3))`

// listTeams returns one page of the teams that a viewer can see, oldest first, and the total. A userID
// restricts the list to the teams of that user.
func listTeams(q *db.Q, organizationID string, v viewer, userID string, limit, offset int) ([]Team, int, error) {
	where := ` WHERE ` + visibleTeams + `
		AND ($4 = '' OR EXISTS (SELECT 1 FROM team_members f WHERE f.team_id = t.id AND f.user_id = $4))`
	return db.ListPage(q, scanTeam, selectTeam+where+`
		ORDER BY t.created_at, t.id`,
		`SELECT COUNT(*) FROM teams t`+where,
		limit, offset, organizationID, v.allTeams, v.userID, userID)
}

// visibleTeam returns the team with this id or slug if the viewer can see it, else a NotFound error. An id
// takes precedence over another team's slug that looks like it.
func visibleTeam(q *db.Q, organizationID string, v viewer, name string) (Team, error) {
	if id, ok := core.ParseID(name); ok {
		name = id
	}
	return db.Find(q, noTeam, scanTeam, selectTeam+` WHERE `+visibleTeams+`
		AND (t.id = $4 OR t.slug = $4)
		ORDER BY CASE WHEN t.id = $4 THEN 0 ELSE 1 END
		LIMIT 1`, organizationID, v.allTeams, v.userID, name)
}

// TeamBySlug returns the team of an organization with a slug, or a NotFound error.
func TeamBySlug(q *db.Q, organizationID, slug string) (Team, error) {
	return db.Find(q, noTeam, scanTeam, selectTeam+` WHERE t.organization_id = $1 AND t.slug = $2`, organizationID, slug)
}

// lockTeam returns a team, or a NotFound error, and locks it until the end of the transaction.
func lockTeam(q *db.Q, organizationID, id string) (Team, error) {
	if err := q.Lock("teams", id); err != nil {
		return Team{}, err
	}
	return db.Find(q, noTeam, scanTeam, selectTeam+` WHERE t.organization_id = $1 AND t.id = $2`, organizationID, id)
}

// LockTeams returns those of ids that are teams of an organization, and keeps these teams from being changed or
// deleted until the end of the transaction.
func LockTeams(q *db.Q, organizationID string, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if err := q.LockAll("teams", "id", ids); err != nil {
		return nil, err
	}
	in, arg := q.In("id", 2, ids)
	return db.Strings(q, `SELECT id FROM teams WHERE organization_id = $1 AND `+in, organizationID, arg)
}

func insertTeam(q *db.Q, t Team) error {
	var by any
	if t.CreatedBy != nil {
		by = t.CreatedBy.ID
	}
	_, err := teamRows.Exec(q, t.ID, `
		INSERT INTO teams (id, organization_id, slug, name, description, privacy, is_default, default_member_role,
			members_can_create_pipelines, members_can_create_suites, members_can_create_registries,
			members_can_destroy_registries, members_can_destroy_packages, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		t.ID, t.OrganizationID, t.Slug, t.Name, t.Description, t.Privacy, t.Default, t.DefaultMemberRole,
		t.MembersCanCreatePipelines, t.MembersCanCreateSuites, t.MembersCanCreateRegistries,
		t.MembersCanDestroyRegistries, t.MembersCanDestroyPackages, by, db.Micros(t.CreatedAt))
	return err
}

// updateTeam writes all columns that can change.
func updateTeam(q *db.Q, t Team) error {
	_, err := teamRows.Exec(q, t.ID, `
		UPDATE teams SET name = $2, description = $3, privacy = $4, is_default = $5, default_member_role = $6,
			members_can_create_pipelines = $7, members_can_create_suites = $8, members_can_create_registries = $9,
			members_can_destroy_registries = $10, members_can_destroy_packages = $11
		WHERE id = $1`,
		t.ID, t.Name, t.Description, t.Privacy, t.Default, t.DefaultMemberRole,
		t.MembersCanCreatePipelines, t.MembersCanCreateSuites, t.MembersCanCreateRegistries,
		t.MembersCanDestroyRegistries, t.MembersCanDestroyPackages)
	return err
}

func deleteTeam(q *db.Q, organizationID, id string) error {
	_, err := teamRows.Exec(q, id, `DELETE FROM teams WHERE organization_id = $1 AND id = $2`, organizationID, id)
	return err
}

// addEveryone adds all members of an organization to a team and gives the team access to all pipelines.
func addEveryone(q *db.Q, t Team, level identity.AccessLevel, now time.Time) error {
	_, err := q.Exec(`
		INSERT INTO team_members (team_id, user_id, role, created_at)
		SELECT $2, user_id, $3, $4
		FROM memberships
		WHERE organization_id = $1`, t.OrganizationID, t.ID, t.DefaultMemberRole, db.Micros(now))
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO team_pipelines (team_id, pipeline_id, access_level, created_at)
		SELECT $2, id, $3, $4
		FROM pipelines
		WHERE organization_id = $1 AND deleted_at IS NULL`, t.OrganizationID, t.ID, level, db.Micros(now))
	return err
}
