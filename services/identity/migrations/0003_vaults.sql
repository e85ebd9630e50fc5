CREATE TABLE vault (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    created_by  text NOT NULL,
    last_updated_by text NOT NULL,
    CONSTRAINT vault_name UNIQUE (account_id, name)
);
CREATE INDEX vault_account ON vault (account_id, id);

CREATE TABLE secret (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    created_by  text NOT NULL,
    last_updated_by text NOT NULL,
    vault_id    text NOT NULL,
    vault_name  text NOT NULL, -- follows the vault's
    value       text NOT NULL, -- sealed
    CONSTRAINT secret_name UNIQUE (vault_id, name)
);
CREATE INDEX secret_account ON secret (account_id, id);
CREATE INDEX secret_vault ON secret (vault_id, id);
