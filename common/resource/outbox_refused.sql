-- Audit events that the event service refused: nothing that waits behind them waits for them, and none of them is lost.
-- INSERT INTO outbox (event) SELECT event FROM outbox_refused sends them again.
CREATE TABLE outbox_refused (
    event jsonb NOT NULL,
    at    timestamptz NOT NULL DEFAULT now()
);
