-- What sessions are found by that a provider ends (OpenID Connect Back-Channel Logout 1.0): SHA-256 in hex of account, issuer and client, and
-- of that and the session at the provider. '': there is none; NULL: it was made before these columns.
ALTER TABLE sign_in_session ADD COLUMN client_hash text, ADD COLUMN provider_hash text;
CREATE INDEX sign_in_session_provider ON sign_in_session (provider_hash) WHERE provider_hash > '';

-- Logout tokens that were taken, until they are too old to be taken. None is taken twice, and sign-ins of the provider's sessions
-- that they ended, which were under way, lead to nothing.
CREATE TABLE sign_in_logout (
    token_hash    text PRIMARY KEY,
    provider_hash text NOT NULL, -- '': it named a person and no session
    expires_at    timestamptz NOT NULL
);
CREATE INDEX sign_in_logout_provider ON sign_in_logout (provider_hash) WHERE provider_hash > '';
CREATE INDEX sign_in_logout_expires ON sign_in_logout (expires_at);
