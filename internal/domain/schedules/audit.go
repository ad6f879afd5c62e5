package schedules

import "stackyard/internal/platform/audit"

// scheduleRows is what the audit trail records of schedules.
var scheduleRows = &audit.Rows{
	Type: "schedule", Table: "schedules", Org: "organization_id", Name: "COALESCE(label, cronline)",
	Columns: "pipeline_id, label, cronline, message, commit_name text commit, branch, env values, enabled bool",
}
