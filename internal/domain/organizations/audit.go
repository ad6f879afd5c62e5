package organizations

import "stackyard/internal/platform/audit"

// What the audit trail records of members, invitations and teams.
var (
	memberRows = &audit.Rows{
		Type: "member", Table: "memberships", Key: "organization_id, user_id",
		Org: "organization_id", Name: "(SELECT email FROM users WHERE id = user_id)",
		Columns: "role, permissions json, sso_mode",
	}
	invitationRows = &audit.Rows{
		Type: "invitation", Table: "invitations", Org: "organization_id", Name: "email",
		Columns: "email, role, expires_at time",
	}
	teamRows = &audit.Rows{
		Type: "team", Table: "teams", Org: "organization_id", Name: "name",
		Columns: `name, slug, description, privacy, is_default bool, default_member_role, members_can_create_pipelines bool,
			members_can_create_suites bool, members_can_create_registries bool, members_can_destroy_registries bool,
			members_can_destroy_packages bool`,
	}
	teamMemberRows = &audit.Rows{
		Type: "team_member", Table: "team_members", Key: "team_id, user_id",
		Org:     "(SELECT organization_id FROM teams WHERE id = team_id)",
		Name:    "(SELECT name FROM teams WHERE id = team_id) || ': ' || (SELECT email FROM users WHERE id = user_id)",
		Columns: "role",
	}
	teamPipelineRows = &audit.Rows{
		Type: "team_pipeline", Table: "team_pipelines", Key: "team_id, pipeline_id",
		Org:     "(SELECT organization_id FROM teams WHERE id = team_id)",
		Name:    "(SELECT name FROM teams WHERE id = team_id) || ': ' || (SELECT slug FROM pipelines WHERE id = pipeline_id)",
		Columns: "access_level",
	}
)
