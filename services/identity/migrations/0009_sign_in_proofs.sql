-- The provider wants no session to last longer; 0: it does not say.
ALTER TABLE sign_in_session ADD COLUMN until_ms bigint NOT NULL DEFAULT 0;

-- When the provider began to vouch: what a revocation since then forbids.
ALTER TABLE sign_in_code ADD COLUMN proven_at timestamptz NOT NULL DEFAULT now();

-- Persons whose sessions all ended, and when last: a sign-in that was proven before leads to nothing. person_hash: SHA-256 in hex of account, provider and id.
CREATE TABLE sign_in_ended (
    person_hash text PRIMARY KEY,
    ended_at    timestamptz NOT NULL
);
CREATE INDEX sign_in_ended_at ON sign_in_ended (ended_at);
