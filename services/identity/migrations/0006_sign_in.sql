-- Which user a provider's person is: of those who signed in; NULL: it did not come by signing in.
ALTER TABLE application_user ADD COLUMN provider_url text;
ALTER TABLE application_user ADD CONSTRAINT application_user_person UNIQUE (account_id, provider_url, provider_user_id);
CREATE INDEX application_session_user ON application_session (application_user_id);

-- Sessions are found by the SHA-256 of their cookie's value, in hex.
ALTER TABLE application_session ADD CONSTRAINT application_session_token UNIQUE (token_hash);

-- What a session is beside what the API shows of it. Times that end in _ms are Unix time.
CREATE TABLE sign_in_session (
    session_id        text PRIMARY KEY COLLATE "C" REFERENCES application_session ON DELETE CASCADE,
    module            text NOT NULL,
    digest            text NOT NULL, -- of the rules that admitted it last
    groups            jsonb NOT NULL,
    email_verified    boolean NOT NULL,
    tokens            text NOT NULL, -- the provider's, sealed; '': none
    created_ms        bigint NOT NULL,
    expires_ms        bigint NOT NULL,
    inactivity_ms     bigint NOT NULL, -- 0: off
    last_active_ms    bigint NOT NULL,
    checked_ms        bigint NOT NULL, -- when the provider vouched last
    due_ms            bigint NOT NULL, -- when it must again; 0: never
    checking_until_ms bigint NOT NULL DEFAULT 0, -- until then one call of all copies asks the provider
    retry_ms          bigint NOT NULL DEFAULT 0 -- nobody asks it before, because it did not answer
);
CREATE INDEX sign_in_session_expires ON sign_in_session (expires_ms);
CREATE INDEX sign_in_session_inactive ON sign_in_session ((last_active_ms + inactivity_ms)) WHERE inactivity_ms > 0;

-- Sign-ins that a provider vouched for, until the browser redeems them.
CREATE TABLE sign_in_code (
    code_hash  bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    sealed     text NOT NULL
);
CREATE INDEX sign_in_code_expires ON sign_in_code (expires_at);
