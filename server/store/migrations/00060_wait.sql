-- +goose Up
-- Until start_by a task may wait for its first worker. Its deadline begins when one claims it, at the
-- latest at start_by; expires_at has the latest possible one meanwhile. 0 is a task whose deadline runs.
ALTER TABLE tasks ADD COLUMN start_by BIGINT NOT NULL DEFAULT 0;
CREATE INDEX tasks_waiting ON tasks (start_by) WHERE start_by > 0 AND state = 'queued';

-- +goose Down
DROP INDEX tasks_waiting;
ALTER TABLE tasks DROP COLUMN start_by;
