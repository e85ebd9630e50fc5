-- What edges have been told of a restriction of type endpoints; null where a version that tells them nothing made it. Such a version
-- leaves the column as it is, also when it changes the policies: what edges do not have is found by that.
ALTER TABLE ip_restriction ADD COLUMN published jsonb;
CREATE INDEX ip_restriction_unpublished ON ip_restriction (id) WHERE type = 'endpoints'
    AND (published->'ip_policy_ids' IS DISTINCT FROM ip_policy_ids OR (published->>'enforced')::boolean IS DISTINCT FROM enforced);
