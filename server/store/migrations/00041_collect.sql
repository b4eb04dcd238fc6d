-- +goose Up
-- A body that was deleted after its run ended leaves an empty request_sha256. The index serves the
-- collector, and the question whether a machine may read a body.
CREATE INDEX runs_by_request ON runs (request_sha256);

-- +goose Down
DROP INDEX runs_by_request;
