package identity

import "stackyard/internal/platform/audit"

// organizationRows is what the audit trail records of organizations.
var organizationRows = &audit.Rows{
	Type: "organization", Table: "organizations", Org: "id", Name: "name",
	Columns: "name, slug, suspended bool, features json, limits json",
}
