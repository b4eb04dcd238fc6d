-- +goose Up
-- What the storage engine remembers of itself: clock_ms, the high-water mark of the store's clock.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);

-- +goose Down
DROP TABLE meta;
