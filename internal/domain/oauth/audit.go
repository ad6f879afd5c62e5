package oauth

import "stackyard/internal/platform/audit"

// What the audit trail records of applications and of what people let them do. Tokens of a grant come and go with it.
var (
	applicationRows = &audit.Rows{
		Type: "oauth_application", Table: "oauth_applications", Org: "organization_id", Name: "name",
		Columns: `name, client_id, confidential bool, token_expires_in, refresh_tokens bool, enabled bool, scopes json, redirect_uris json,
			client_secret_hash secret client_secret`,
	}
	grantRows = &audit.Rows{
		Type: "oauth_authorization", Table: "oauth_grants", Org: "organization_id",
		Name:    "(SELECT a.name FROM oauth_applications a WHERE a.id = application_id)",
		Columns: "application_id, user_id, scopes json",
	}
)
