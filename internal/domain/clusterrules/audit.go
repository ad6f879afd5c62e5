package clusterrules

import "stackyard/internal/platform/audit"

// ruleRows is what the audit trail records of rules.
var ruleRows = &audit.Rows{
	Type: "rule", Table: "rules", Org: "organization_id",
	Name:    "(SELECT p.slug FROM pipelines p WHERE p.id = source_id) || ' to ' || (SELECT p.slug FROM pipelines p WHERE p.id = target_id)",
	Columns: "type, source_id, target_id",
}
