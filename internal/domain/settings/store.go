package settings

import (
	"errors"

	"stackyard/internal/platform/db"
)

// Of returns the pipeline settings of an organization.
func Of(q *db.Q, orgID string) (Settings, error) {
	s, err := db.One(q, scan, selectSettings, orgID)
	if errors.Is(err, db.ErrNoRows) {
		return defaults, nil
	}
	return s, err
}

// ReadLater is Of with the result in a variable, see [db.EachLater].
func ReadLater(q *db.Q, orgID string, into *Settings) error {
	*into = defaults
	return db.EachLater(q, func(row db.Scan) (err error) {
		*into, err = scan(row)
		return err
	}, selectSettings, orgID)
}

const selectSettings = `
	SELECT s.default_branch, cluster.id,
	       COALESCE(s.default_timeout_in_minutes, 0),
	       COALESCE(s.maximum_timeout_in_minutes, 0),
	       COALESCE(s.scheduled_job_expiry_in_minutes, 0),
	       s.hosted_agents_terminal_enabled_at, terminal.id, terminal.name,
	       s.public_pipelines_enabled_at, public.id, public.name,
	       s.queue_metrics_enabled_at, metrics.id, metrics.name,
	       s.build_export_strategy, s.build_export_location
	FROM pipeline_settings s
	LEFT JOIN clusters cluster ON cluster.id = s.default_cluster_id AND cluster.deleted_at IS NULL
	LEFT JOIN users terminal ON terminal.id = s.hosted_agents_terminal_enabled_by
	LEFT JOIN users public   ON public.id   = s.public_pipelines_enabled_by
	LEFT JOIN users metrics  ON metrics.id  = s.queue_metrics_enabled_by
	WHERE s.organization_id = $1`

func scan(row db.Scan) (Settings, error) {
	var s Settings
	err := row(
		db.ToText(&s.DefaultBranch), db.ToText(&s.DefaultClusterID),
		&s.DefaultTimeout, &s.MaximumTimeout, &s.ScheduledJobExpiry,
		db.ToTime(&s.TerminalAccess.EnabledAt), db.ToText(&s.TerminalAccess.EnabledBy.ID), db.ToText(&s.TerminalAccess.EnabledBy.Name),
		db.ToTime(&s.PublicPipelines.EnabledAt), db.ToText(&s.PublicPipelines.EnabledBy.ID), db.ToText(&s.PublicPipelines.EnabledBy.Name),
		db.ToTime(&s.QueueMetrics.EnabledAt), db.ToText(&s.QueueMetrics.EnabledBy.ID), db.ToText(&s.QueueMetrics.EnabledBy.Name),
		db.ToText(&s.BuildExport.Strategy), db.ToText(&s.BuildExport.Location),
	)
	if s.DefaultBranch == "" {
		s.DefaultBranch = DefaultBranch
	}
	return s, err
}

func save(q *db.Q, orgID string, s Settings) error {
	branch := s.DefaultBranch
	if branch == DefaultBranch {
		branch = "" // not set by the organization
	}
	_, err := settingsRows.Exec(q, orgID, `
		INSERT INTO pipeline_settings (
			organization_id, default_branch, default_cluster_id,
			default_timeout_in_minutes, maximum_timeout_in_minutes, scheduled_job_expiry_in_minutes,
			hosted_agents_terminal_enabled_at, hosted_agents_terminal_enabled_by,
			public_pipelines_enabled_at, public_pipelines_enabled_by,
			queue_metrics_enabled_at, queue_metrics_enabled_by,
			build_export_strategy, build_export_location)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`+db.OrUpdate("organization_id", `
			default_branch, default_cluster_id, default_timeout_in_minutes, maximum_timeout_in_minutes,
			scheduled_job_expiry_in_minutes, hosted_agents_terminal_enabled_at,
			hosted_agents_terminal_enabled_by, public_pipelines_enabled_at, public_pipelines_enabled_by,
			queue_metrics_enabled_at, queue_metrics_enabled_by, build_export_strategy, build_export_location`),
		orgID, db.Text(branch), db.Text(s.DefaultClusterID),
		db.OrNull(s.DefaultTimeout), db.OrNull(s.MaximumTimeout), db.OrNull(s.ScheduledJobExpiry),
		db.Micros(s.TerminalAccess.EnabledAt), db.Text(s.TerminalAccess.EnabledBy.ID),
		db.Micros(s.PublicPipelines.EnabledAt), db.Text(s.PublicPipelines.EnabledBy.ID),
		db.Micros(s.QueueMetrics.EnabledAt), db.Text(s.QueueMetrics.EnabledBy.ID),
		db.Text(s.BuildExport.Strategy), db.Text(s.BuildExport.Location))
	return err
}
