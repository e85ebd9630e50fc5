-- The config log: the newest entry of every key, under the revision that wrote it. A missing doc is
-- a deletion. The head row's lock makes commit order revision order, without gaps.
CREATE TABLE config_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    log_id   text NOT NULL,
    revision bigint NOT NULL
);
INSERT INTO config_head (log_id, revision) VALUES (gen_random_uuid()::text, 0);

CREATE TABLE config_entry (
    kind     text NOT NULL,
    id       text NOT NULL,
    revision bigint NOT NULL,
    doc      text, -- sealed msgpack: it holds keys
    PRIMARY KEY (kind, id)
);
CREATE INDEX config_entry_revision ON config_entry (revision);
