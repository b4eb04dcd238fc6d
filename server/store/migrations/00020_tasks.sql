-- +goose Up
-- Durable tasks. The row and its journal are truth. Times are milliseconds since 1970, 0 is none; an
-- empty text is none. run_at serves delays; concurrency_key, parent_id and tags are reserved.
CREATE TABLE tasks (
    id               TEXT PRIMARY KEY,
    seq              BIGINT NOT NULL, -- order of admission
    project          TEXT NOT NULL,
    type             TEXT NOT NULL,
    schema_version   INTEGER NOT NULL,
    pool             TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    state            TEXT NOT NULL,
    attempts         INTEGER NOT NULL DEFAULT 0, -- those that count
    max_attempts     INTEGER NOT NULL,
    effect_key       TEXT NOT NULL,
    effect_safety    TEXT NOT NULL DEFAULT '',
    worker_id        TEXT NOT NULL DEFAULT '',
    attempt_id       TEXT NOT NULL DEFAULT '',
    fence            BIGINT NOT NULL DEFAULT 0, -- of the newest attempt; only grows
    lease_hash       TEXT NOT NULL DEFAULT '',
    lease_until      BIGINT NOT NULL DEFAULT 0,
    journal_cursor   BIGINT NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0, -- 1 by somebody, 2 by the deadline
    cancel_reason    TEXT NOT NULL DEFAULT '',
    result           TEXT NOT NULL DEFAULT '',
    error            TEXT NOT NULL DEFAULT '',
    progress         TEXT NOT NULL DEFAULT '',
    idempotency_key  TEXT NOT NULL DEFAULT '',
    request_hash     TEXT NOT NULL DEFAULT '',
    correlations     TEXT NOT NULL DEFAULT '',
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    started_at       BIGINT NOT NULL DEFAULT 0,
    ended_at         BIGINT NOT NULL DEFAULT 0,
    expires_at       BIGINT NOT NULL DEFAULT 0,
    run_at           BIGINT NOT NULL DEFAULT 0,
    concurrency_key  TEXT NOT NULL DEFAULT '',
    parent_id        TEXT NOT NULL DEFAULT '',
    tags             TEXT NOT NULL DEFAULT ''
);
-- The claim reads this index alone, in its order.
CREATE INDEX tasks_claim ON tasks (project, type, schema_version, pool, priority DESC, seq, id, expires_at)
    WHERE state = 'queued';
CREATE UNIQUE INDEX tasks_idempotency ON tasks (project, idempotency_key) WHERE idempotency_key <> '';
CREATE INDEX tasks_newest ON tasks (project, seq);
CREATE INDEX tasks_by_type ON tasks (project, type, seq);
CREATE INDEX tasks_by_state ON tasks (project, state, seq);
CREATE INDEX tasks_holder ON tasks (project, worker_id) WHERE state IN ('leased', 'running');
CREATE INDEX tasks_lease ON tasks (lease_until) WHERE state IN ('leased', 'running');
CREATE INDEX tasks_due ON tasks (run_at) WHERE state = 'scheduled';
CREATE INDEX tasks_deadline ON tasks (expires_at)
    WHERE expires_at > 0 AND state IN ('scheduled', 'queued', 'leased', 'running');

-- Apart from the row, so that a move does not write a large input again.
CREATE TABLE task_inputs (
    task_id TEXT PRIMARY KEY,
    input   TEXT NOT NULL
);

CREATE TABLE attempts (
    id            TEXT PRIMARY KEY,
    task_id       TEXT NOT NULL,
    project       TEXT NOT NULL,
    number        INTEGER NOT NULL,
    worker_id     TEXT NOT NULL,
    machine       TEXT NOT NULL DEFAULT '',
    effect_safety TEXT NOT NULL,
    stream_bytes  BIGINT NOT NULL DEFAULT 0, -- of its output stream, durable in the journal
    chatter_bytes BIGINT NOT NULL DEFAULT 0, -- of its logs and progress in the journal
    leased_at     BIGINT NOT NULL,
    started_at    BIGINT NOT NULL DEFAULT 0,
    ended_at      BIGINT NOT NULL DEFAULT 0,
    ended_by      TEXT NOT NULL DEFAULT '' -- complete, fail, unknown (reports) or lost
);
CREATE UNIQUE INDEX attempts_of_task ON attempts (task_id, number);

CREATE TABLE journal (
    task_id    TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    kind       TEXT NOT NULL,
    attempt_id TEXT NOT NULL DEFAULT '',
    data       TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (task_id, seq)
);

CREATE TABLE workers (
    project        TEXT NOT NULL,
    worker_id      TEXT NOT NULL,
    machine        TEXT NOT NULL DEFAULT '',
    handlers       TEXT NOT NULL,
    pools          TEXT NOT NULL,
    max_concurrent INTEGER NOT NULL,
    running        INTEGER NOT NULL DEFAULT 0,
    draining       INTEGER NOT NULL DEFAULT 0,
    version        TEXT NOT NULL DEFAULT '',
    registered_at  BIGINT NOT NULL,
    last_seen      BIGINT NOT NULL,
    PRIMARY KEY (project, worker_id)
);

-- +goose Down
DROP TABLE workers;
DROP TABLE journal;
DROP TABLE attempts;
DROP TABLE task_inputs;
DROP TABLE tasks;
