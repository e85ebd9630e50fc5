-- Where each producer's sequence stands: what was received, lost and dropped is exact over restarts.
CREATE TABLE producer (
    name     text PRIMARY KEY,
    last_seq bigint NOT NULL,
    events   bigint NOT NULL,
    lost     bigint NOT NULL DEFAULT 0, -- sequence numbers that never came
    dropped  bigint NOT NULL DEFAULT 0, -- counted and given up by the producer
    at       timestamptz NOT NULL DEFAULT now()
);

-- Audit events, for good.
CREATE TABLE log (
    event_id   text PRIMARY KEY COLLATE "C",
    event_type text NOT NULL,
    account_id text NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    event      jsonb NOT NULL
);
CREATE INDEX log_account ON log (account_id, event_id);
