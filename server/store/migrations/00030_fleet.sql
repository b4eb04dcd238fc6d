-- +goose Up
-- Model groups, immutable releases, deployments, channels and machines. JSON columns hold wire types
-- that are read and written whole. Times are milliseconds since 1970.
CREATE TABLE model_groups (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    project    TEXT NOT NULL REFERENCES projects (id),
    created_at BIGINT NOT NULL,
    UNIQUE (project, name)
);

CREATE TABLE releases (
    id             TEXT PRIMARY KEY,
    model_group    TEXT NOT NULL REFERENCES model_groups (id),
    name           TEXT NOT NULL,
    runtime        TEXT NOT NULL,
    files          TEXT NOT NULL,
    args           TEXT NOT NULL,
    context_length BIGINT NOT NULL,
    slots          BIGINT NOT NULL,
    license        TEXT NOT NULL,
    architecture   TEXT NOT NULL,
    digest         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    UNIQUE (model_group, name)
);

-- The alias of a retired deployment stays taken: it names exact weights for ever.
CREATE TABLE deployments (
    id          TEXT PRIMARY KEY,
    project     TEXT NOT NULL REFERENCES projects (id),
    model_group TEXT NOT NULL REFERENCES model_groups (id),
    alias       TEXT NOT NULL,
    release_id  TEXT NOT NULL REFERENCES releases (id),
    settings    TEXT NOT NULL,
    route       TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    retired_at  BIGINT,
    UNIQUE (project, alias)
);
CREATE INDEX deployments_by_group ON deployments (model_group);

CREATE TABLE channels (
    model_group TEXT NOT NULL REFERENCES model_groups (id),
    name        TEXT NOT NULL,
    deployment  TEXT NOT NULL REFERENCES deployments (id),
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (model_group, name)
);

CREATE TABLE machines (
    id              TEXT PRIMARY KEY,
    name            TEXT NOT NULL,
    project         TEXT NOT NULL REFERENCES projects (id),
    model_group     TEXT NOT NULL REFERENCES model_groups (id),
    role            TEXT NOT NULL,
    runtime         TEXT NOT NULL,
    host_id         TEXT NOT NULL,
    mode            TEXT NOT NULL,
    desired_version BIGINT NOT NULL,
    report          TEXT NOT NULL,
    instance        TEXT NOT NULL DEFAULT '',
    prior_instance  TEXT NOT NULL DEFAULT '',
    conflict        TEXT NOT NULL DEFAULT '',
    conflict_at     BIGINT,
    enrolled_at     BIGINT NOT NULL,
    last_seen_at    BIGINT,
    revoked_at      BIGINT
);
CREATE INDEX machines_by_project ON machines (project, enrolled_at);
CREATE INDEX machines_by_group ON machines (model_group);

CREATE TABLE samples (
    machine           TEXT NOT NULL REFERENCES machines (id),
    at                BIGINT NOT NULL,
    tokens_per_second DOUBLE PRECISION,
    busy              BIGINT NOT NULL,
    slots             BIGINT NOT NULL,
    memory_free       BIGINT,
    PRIMARY KEY (machine, at)
);

-- +goose Down
DROP TABLE samples;
DROP TABLE machines;
DROP TABLE channels;
DROP TABLE deployments;
DROP TABLE releases;
DROP TABLE model_groups;
