package settings

import "stackyard/internal/platform/audit"

// settingsRows is what the audit trail records of pipeline settings.
var settingsRows = &audit.Rows{
	Type: "pipeline_settings", Table: "pipeline_settings", Key: "organization_id", Org: "organization_id", Name: "'Pipeline settings'",
	Columns: `default_branch, default_cluster_id, default_timeout_in_minutes, maximum_timeout_in_minutes,
		scheduled_job_expiry_in_minutes, hosted_agents_terminal_enabled_at time, public_pipelines_enabled_at time,
		queue_metrics_enabled_at time, build_export_strategy, build_export_location`,
}
