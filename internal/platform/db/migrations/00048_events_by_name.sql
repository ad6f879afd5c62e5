-- +goose Up

-- Event logs read the events of an organization by name. Consumers read along the primary key.
CREATE INDEX events_named ON events (organization_id, name, seq);
DROP INDEX events_organization;
