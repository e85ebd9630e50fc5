-- Who makes room for others, where an account has as many users as it may have: of those who came by signing in, who did so longest ago.
CREATE INDEX application_user_by_login ON application_user (account_id, last_login, id) WHERE provider_url IS NOT NULL;
