package stacks

import "stackyard/internal/platform/audit"

// stackRows is what the audit trail records of stacks.
var stackRows = &audit.Rows{
	Type: "stack", Table: "stacks", Org: "organization_id", Name: "key",
	Columns: "key, type, cluster_id, queue_key",
}
