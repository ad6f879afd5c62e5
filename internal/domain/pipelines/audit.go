package pipelines

import "stackyard/internal/platform/audit"

// What the audit trail records of pipelines and templates. The configuration of a visual pipeline is its steps.
var (
	pipelineRows = &audit.Rows{
		Type: "pipeline", Table: "pipelines", Org: "organization_id", Name: "name", Gone: "deleted_at IS NOT NULL",
		Columns: `name, slug, description, repository, sealed_repository_url secret repository_credentials, cluster_id, template_id,
			COALESCE(configuration,steps) text configuration, env values, default_branch, branch_configuration, skip_queued_branch_builds bool,
			skip_queued_branch_builds_filter, cancel_running_branch_builds bool, cancel_running_branch_builds_filter,
			allow_rebuilds bool, clone_mirror_url, default_command_step_timeout, maximum_command_step_timeout,
			provider_settings json, tags json, emoji, color, visibility, source_webhooks_disabled_at time, archived_at time,
			webhook_key secret`,
	}
	templateRows = &audit.Rows{
		Type: "pipeline_template", Table: "pipeline_templates", Org: "organization_id", Name: "name",
		Columns: "name, description, configuration, available bool",
	}
)
