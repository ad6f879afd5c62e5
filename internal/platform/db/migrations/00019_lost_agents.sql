-- +goose Up

-- Who is lost is found where it is saved who was heard of, and not by a task any more.
DELETE FROM tasks WHERE kind = 'agents-lost';
