-- +goose Up
-- A run may go to a worker of the project's own hardware, which serves a model by its alias without a
-- deployment: deployment names a row of deployments no more when it begins with "model:".
-- usage_events refers to runs, so the table can be dropped only while foreign keys are off, as they are for every
-- migration of SQLite (and checked as a whole afterwards). For PostgreSQL this is to be written as
-- ALTER TABLE runs DROP CONSTRAINT runs_deployment_fkey, which SQLite cannot.
CREATE TABLE runs_on_any (
    id             TEXT PRIMARY KEY,
    task           TEXT NOT NULL UNIQUE,
    project        TEXT NOT NULL REFERENCES projects (id),
    model          TEXT NOT NULL,
    deployment     TEXT NOT NULL,
    alias          TEXT NOT NULL,
    route          TEXT NOT NULL,
    policy         TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    request_size   BIGINT NOT NULL,
    created_at     BIGINT NOT NULL
);
INSERT INTO runs_on_any (id, task, project, model, deployment, alias, route, policy, request_sha256, request_size, created_at)
    SELECT id, task, project, model, deployment, alias, route, policy, request_sha256, request_size, created_at FROM runs;
DROP TABLE runs;
ALTER TABLE runs_on_any RENAME TO runs;
CREATE INDEX runs_by_project ON runs (project, id);
CREATE INDEX runs_by_request ON runs (request_sha256);
CREATE INDEX runs_by_deployment ON runs (project, deployment);

-- +goose Down
DROP INDEX runs_by_deployment;
