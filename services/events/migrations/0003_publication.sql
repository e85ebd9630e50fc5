-- How many events of each type were numbered for subscribers, in the order of their commits: whoever finds a number missing
-- between two that came knows what was missed, also over a restart and with several copies.
CREATE TABLE topic (
    name text PRIMARY KEY COLLATE "C",
    last bigint NOT NULL
);

-- The number under which an audit event was published; those from before have none.
ALTER TABLE log ADD COLUMN number bigint;
CREATE INDEX log_number ON log (event_type, number);
CREATE INDEX log_at ON log (at);

-- Who listens at the PUB socket of which copy, by topic prefix: after a restart it waits for them.
CREATE TABLE listener (
    pub    text NOT NULL,
    prefix text NOT NULL,
    n      integer NOT NULL,
    PRIMARY KEY (pub, prefix)
);
