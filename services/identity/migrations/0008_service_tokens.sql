-- Tokens of machines, which edges let in where people sign in. token_hash: SHA-256 of the whole token, in hexadecimal.
CREATE TABLE service_token (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    name        text NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    route_ids   jsonb NOT NULL,
    edge_ids    jsonb NOT NULL,
    expires_at  timestamptz,
    token_hash  text NOT NULL CONSTRAINT service_token_hash UNIQUE
);
CREATE INDEX service_token_account ON service_token (account_id, id);
