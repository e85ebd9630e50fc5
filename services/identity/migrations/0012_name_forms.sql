-- What makes a SAML name another one than the same text elsewhere (saml_name_form). NULL or '': nothing, or of a version that did not note it: whoever
-- signs in first by that text is that user, and has it noted.
ALTER TABLE application_user ADD COLUMN name_form text COLLATE "C";
DROP INDEX application_user_person;
CREATE UNIQUE INDEX application_user_person ON application_user (account_id, provider_url, provider_user_id, (identity_provider ->> 'name'), coalesce(name_form, ''));
