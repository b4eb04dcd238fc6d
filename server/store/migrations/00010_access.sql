-- +goose Up
-- Who may do what. Secrets stand here only as SHA-256. Times are milliseconds since 1970.
CREATE TABLE accounts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

CREATE TABLE projects (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE members (
    project    TEXT NOT NULL REFERENCES projects (id),
    account    TEXT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project, account)
);

-- One row a credential of any kind; which of the owner columns are set depends on the kind.
CREATE TABLE credentials (
    id           TEXT PRIMARY KEY,
    hash         TEXT NOT NULL UNIQUE,
    prefix       TEXT NOT NULL,
    kind         TEXT NOT NULL,
    label        TEXT NOT NULL DEFAULT '',
    account      TEXT REFERENCES accounts (id),
    project      TEXT REFERENCES projects (id),
    model_group  TEXT,
    role         TEXT,
    machine      TEXT,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    last_used_at BIGINT,
    revoked_at   BIGINT
);
CREATE INDEX credentials_by_project ON credentials (project, kind);
CREATE INDEX credentials_by_group ON credentials (model_group, kind);
CREATE INDEX credentials_by_machine ON credentials (machine);

-- +goose Down
DROP TABLE credentials;
DROP TABLE members;
DROP TABLE projects;
DROP TABLE accounts;
