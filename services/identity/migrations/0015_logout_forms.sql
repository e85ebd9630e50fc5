-- Of which forms of a SAML name a LogoutRequest was, as LIKE has it (saml_name_form, with "%" for each part that the request left out). NULL: of any; so are
-- rows of versions that did not note it, and logout tokens of OpenID Connect.
ALTER TABLE sign_in_logout ADD COLUMN name_form text COLLATE "C";
