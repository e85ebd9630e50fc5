-- What edges have been told of a failover backend; null where a version that tells them nothing made it. Such a version leaves the
-- column as it is, also when it changes the members: what edges do not have is found by that.
ALTER TABLE failover_backend ADD COLUMN published jsonb;
CREATE INDEX failover_backend_unpublished ON failover_backend (id) WHERE published IS DISTINCT FROM backends;
