-- LogoutRequests of SAML that were taken (SAML core 3.7) stand in sign_in_logout, too: a row for the request, and one for each session at the
-- provider, or for the name, that it ended. before_ms: its IssueInstant, by the provider's clock; what that vouched for no later leads to nothing.
ALTER TABLE sign_in_logout ADD COLUMN before_ms bigint;
