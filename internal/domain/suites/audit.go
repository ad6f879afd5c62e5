package suites

import "stackyard/internal/platform/audit"

// What the audit trail records of suites.
var (
	suiteRows = &audit.Rows{
		Type: "suite", Table: "suites", Org: "organization_id", Name: "name", Gone: "deleted_at IS NOT NULL",
		Columns: "name, slug, default_branch, application_name, color, emoji, oidc_policy json, token_hash secret token",
	}
	teamSuiteRows = &audit.Rows{
		Type: "team_suite", Table: "team_suites", Key: "team_id, suite_id",
		Org:     "(SELECT s.organization_id FROM suites s WHERE s.id = suite_id)",
		Name:    "(SELECT s.name FROM suites s WHERE s.id = suite_id)",
		Columns: "team_id, can_edit bool",
	}
)
