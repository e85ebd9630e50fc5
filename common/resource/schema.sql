-- What every service that owns kinds has beside the kinds' own tables.

-- One row an object: the anchor for references, parents and locks.
CREATE TABLE object (
    id         text PRIMARY KEY COLLATE "C",
    account_id text NOT NULL,
    kind       text NOT NULL,
    parent_id  text REFERENCES object ON DELETE CASCADE
);
CREATE INDEX object_parent ON object (parent_id) WHERE parent_id IS NOT NULL;

-- Who refers to whom: PostgreSQL refuses to delete what is referred to, whatever the race.
CREATE TABLE ref (
    from_id text NOT NULL REFERENCES object ON DELETE CASCADE,
    path    text NOT NULL,
    to_id   text NOT NULL CONSTRAINT ref_to REFERENCES object ON DELETE RESTRICT,
    PRIMARY KEY (from_id, path, to_id)
);
CREATE INDEX ref_to_id ON ref (to_id);

-- Idempotency: what a mutating request did, in the transaction that did it.
CREATE TABLE request (
    key       text PRIMARY KEY,
    verb      text NOT NULL,
    object_id text,
    revision  bigint,
    at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX request_at ON request (at);

-- Audit events, committed with the change, deleted when the event service has stored them.
CREATE TABLE outbox (
    seq   bigserial PRIMARY KEY,
    event jsonb NOT NULL
);
