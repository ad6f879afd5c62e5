-- +goose Up

-- Tasks that a process is running, to find those of processes that died.
CREATE INDEX tasks_leased ON tasks (lease) WHERE lease IS NOT NULL;
