-- What vouched for somebody and may do so once: assertions of SAML, by a SHA-256 of account, provider and ID. Kept until they are
-- no longer valid.
CREATE TABLE sign_in_once (
    once_hash  bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_once_expires ON sign_in_once (expires_at);
