-- +goose Up

-- Sets of rules that no job has any more are removed.
ALTER TABLE rule_sets ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0; -- to an hour
CREATE INDEX rule_sets_used ON rule_sets (used_at);
CREATE INDEX jobs_rule_set ON jobs (organization_id, rule_set) WHERE rule_set IS NOT NULL;
