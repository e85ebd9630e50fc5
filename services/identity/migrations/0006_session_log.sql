-- The session log, which edges follow: its entries are deletions only, of sessions, by the SHA-256 of their cookie's value in hex.
-- It begins at the time: revision 0 says to an edge that it has nothing.
UPDATE config_head SET revision = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
UPDATE config_revision SET revision = (SELECT revision FROM config_head);

ALTER TABLE application_session ADD COLUMN IF NOT EXISTS token_hash text;
