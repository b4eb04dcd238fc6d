-- +goose Up
-- Which project may read which stored bytes. The bytes themselves are files named by their digest.
CREATE TABLE file_owners (
    project    TEXT NOT NULL REFERENCES projects (id),
    sha256     TEXT NOT NULL,
    size       BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project, sha256)
);

-- +goose Down
DROP TABLE file_owners;
