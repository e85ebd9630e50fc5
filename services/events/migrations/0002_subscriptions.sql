-- Where captured events go, and which are captured.
CREATE TABLE event_destination (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    format      text NOT NULL,
    target      jsonb NOT NULL -- secrets in it sealed
);
CREATE INDEX event_destination_account ON event_destination (account_id, id);

CREATE TABLE event_subscription (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    sources     jsonb NOT NULL,
    destination_ids jsonb NOT NULL
);
CREATE INDEX event_subscription_account ON event_subscription (account_id, id);
