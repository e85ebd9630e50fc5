CREATE TABLE application_user (
    id                text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id        text NOT NULL REFERENCES account,
    created_at        timestamptz NOT NULL,
    identity_provider jsonb NOT NULL,
    provider_user_id  text NOT NULL,
    username          text NOT NULL,
    email             text NOT NULL,
    name              text NOT NULL,
    last_active       timestamptz NOT NULL,
    last_login        timestamptz NOT NULL
);
CREATE INDEX application_user_account ON application_user (account_id, id);

CREATE TABLE application_session (
    id                  text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id          text NOT NULL REFERENCES account,
    created_at          timestamptz NOT NULL,
    public_url          text NOT NULL,
    browser_session     jsonb NOT NULL,
    application_user_id text, -- parent_id of its object, too
    last_active         timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    endpoint_id         text,
    edge_id             text,
    route_id            text
);
CREATE INDEX application_session_account ON application_session (account_id, id);
