CREATE TABLE account (
    id         text PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Who can own API keys.
CREATE TABLE owner (
    id         text PRIMARY KEY,
    account_id text NOT NULL REFERENCES account ON DELETE CASCADE,
    email      text NOT NULL,
    active     boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (account_id, email)
);

CREATE TABLE api_key (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    owner_id    text NOT NULL REFERENCES owner,
    token_hash  text NOT NULL -- SHA-256, hex
);
CREATE INDEX api_key_account ON api_key (account_id, id);
