-- +goose Up

-- Whatever is deleted is looked for in these.
DROP INDEX agents_cluster;
CREATE INDEX agents_cluster ON agents (cluster_id, state);
CREATE INDEX builds_cluster ON builds (cluster_id) WHERE cluster_id IS NOT NULL;
CREATE INDEX cluster_maintainers_team ON cluster_maintainers (team_id) WHERE team_id IS NOT NULL;
CREATE INDEX pipeline_settings_default_cluster ON pipeline_settings (default_cluster_id) WHERE default_cluster_id IS NOT NULL;
CREATE INDEX rules_source ON rules (source_id);
CREATE INDEX rules_target ON rules (target_id);
CREATE INDEX stacks_cluster ON stacks (cluster_id);

-- When a pipeline or a cluster was deleted. From then on it is as if it did not exist, while a task removes
-- what belongs to it little by little and then the row.
ALTER TABLE pipelines ADD COLUMN deleted_at BIGINT;
ALTER TABLE clusters ADD COLUMN deleted_at BIGINT;
