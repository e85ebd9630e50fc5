-- What the provider said of the person to this very session, {provider, username, name, email}: application_user has what it said last, to any of them, and an address is
-- verified or not together with what said it. And of what its rules were asked (session_source). NULL: of a version that kept neither.
ALTER TABLE sign_in_session ADD COLUMN claims jsonb;
ALTER TABLE sign_in_session ADD COLUMN source text;

-- A user is who signs in by a provider of this name and URL: the same person by oauth and by oidc, at the same URL, is two users, each with sessions of its own kind.
ALTER TABLE application_user DROP CONSTRAINT application_user_person;
CREATE UNIQUE INDEX application_user_person ON application_user (account_id, provider_url, provider_user_id, (identity_provider ->> 'name'));
