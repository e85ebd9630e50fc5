-- Bot and service users are objects; users are not.
ALTER TABLE owner ADD COLUMN object_id text REFERENCES object ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE bot_user (
    id         text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id text NOT NULL REFERENCES account,
    created_at timestamptz NOT NULL,
    name       text NOT NULL,
    active     boolean NOT NULL
);
CREATE INDEX bot_user_account ON bot_user (account_id, id);

CREATE TABLE service_user (
    id         text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id text NOT NULL REFERENCES account,
    created_at timestamptz NOT NULL,
    name       text NOT NULL,
    active     boolean NOT NULL
);
CREATE INDEX service_user_account ON service_user (account_id, id);

CREATE TABLE credential (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    owner_id    text NOT NULL REFERENCES owner,
    acl         jsonb NOT NULL,
    token_hash  text NOT NULL -- SHA-256, hex
);
CREATE INDEX credential_account ON credential (account_id, id);

CREATE TABLE ssh_credential (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    owner_id    text NOT NULL REFERENCES owner,
    acl         jsonb NOT NULL,
    public_key  text NOT NULL,
    key_blob    text NOT NULL, -- without type and comment
    CONSTRAINT ssh_credential_key UNIQUE (account_id, key_blob)
);
CREATE INDEX ssh_credential_account ON ssh_credential (account_id, id);

CREATE TABLE ssh_certificate_authority (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    public_key  text NOT NULL,
    key_type    text NOT NULL,
    private_key_pem text NOT NULL -- sealed
);
CREATE INDEX ssh_certificate_authority_account ON ssh_certificate_authority (account_id, id);

CREATE TABLE ssh_host_certificate (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    public_key  text NOT NULL,
    key_type    text NOT NULL,
    ssh_certificate_authority_id text NOT NULL,
    principals  jsonb NOT NULL,
    valid_after timestamptz NOT NULL,
    valid_until timestamptz NOT NULL,
    certificate text NOT NULL
);
CREATE INDEX ssh_host_certificate_account ON ssh_host_certificate (account_id, id);

CREATE TABLE ssh_user_certificate (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL REFERENCES account,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    public_key  text NOT NULL,
    key_type    text NOT NULL,
    ssh_certificate_authority_id text NOT NULL,
    principals  jsonb NOT NULL,
    valid_after timestamptz NOT NULL,
    valid_until timestamptz NOT NULL,
    certificate text NOT NULL,
    critical_options jsonb NOT NULL,
    extensions  jsonb NOT NULL
);
CREATE INDEX ssh_user_certificate_account ON ssh_user_certificate (account_id, id);
