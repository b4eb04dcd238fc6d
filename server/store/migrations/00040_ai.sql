-- +goose Up
-- AI runs stand on tasks: state, result and journal are the task's. Times are milliseconds since 1970.
CREATE TABLE runs (
    id             TEXT PRIMARY KEY,
    task           TEXT NOT NULL UNIQUE,
    project        TEXT NOT NULL REFERENCES projects (id),
    model          TEXT NOT NULL,
    deployment     TEXT NOT NULL REFERENCES deployments (id),
    alias          TEXT NOT NULL,
    route          TEXT NOT NULL,
    policy         TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    request_size   BIGINT NOT NULL,
    created_at     BIGINT NOT NULL
);
CREATE INDEX runs_by_project ON runs (project, id);

-- The one charge of a run: run is unique, so a second one cannot be written.
CREATE TABLE usage_events (
    id                TEXT PRIMARY KEY,
    run               TEXT NOT NULL UNIQUE REFERENCES runs (id),
    task              TEXT NOT NULL,
    project           TEXT NOT NULL REFERENCES projects (id),
    route             TEXT NOT NULL,
    policy            TEXT NOT NULL,
    alias             TEXT NOT NULL,
    deployment        TEXT NOT NULL,
    worker            TEXT NOT NULL,
    attempt           BIGINT NOT NULL,
    prompt_tokens     BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    duration_ms       BIGINT NOT NULL,
    state             TEXT NOT NULL,
    at                BIGINT NOT NULL
);
CREATE INDEX usage_by_project ON usage_events (project, id);

-- +goose Down
DROP TABLE usage_events;
DROP TABLE runs;
