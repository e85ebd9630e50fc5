-- Sessions of SAML that were made before until_ms was kept end when they would have: what the provider wanted is in expires_ms, or that is earlier.
UPDATE sign_in_session SET until_ms = expires_ms WHERE module = 'saml' AND until_ms = 0;
