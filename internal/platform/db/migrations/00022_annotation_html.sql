-- +goose Up

-- Annotations are rendered when they are written. written counts the bytes that were ever written to the
-- body; rendered is what it was when html was rendered.
ALTER TABLE annotations ADD COLUMN html TEXT; -- NULL: not rendered yet
ALTER TABLE annotations ADD COLUMN written BIGINT NOT NULL DEFAULT 1;
ALTER TABLE annotations ADD COLUMN rendered BIGINT NOT NULL DEFAULT 0;
INSERT INTO tasks (kind, key, due_at, run_at, attempts)
SELECT 'annotation-render', id, created_at, created_at, 0 FROM annotations;
