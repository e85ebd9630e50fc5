-- Sessions that a provider ends are ended by the hundred, in the order of their ids: the next hundred is found without reading all of them.
CREATE INDEX sign_in_session_provider_sessions ON sign_in_session (provider_hash, session_id) WHERE provider_hash > '';
DROP INDEX sign_in_session_provider;
