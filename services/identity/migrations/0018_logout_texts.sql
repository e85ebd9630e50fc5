-- SHA-256 in hexadecimal of a logout token that was carried out, as it came: the same one again, whose answer was lost, is told so. NULL: of
-- requests of SAML, and of tokens that a version before carried out.
ALTER TABLE sign_in_logout ADD COLUMN text_hash text;
