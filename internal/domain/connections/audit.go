package connections

import "stackyard/internal/platform/audit"

// connectionRows is what the audit trail records of connections.
var connectionRows = &audit.Rows{
	Type: "source_connection", Table: "source_connections", Org: "organization_id", Name: "host",
	Columns: "host, provider, api_url, app_id, installation_id, token secret, clone_token secret, private_key secret",
}
