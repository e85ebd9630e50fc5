-- What edges have been told of a policy and a rule; null where a version that tells them nothing made it. Such a version leaves the
-- column as it is, also when it changes the network: what edges do not have is found by that.
ALTER TABLE ip_policy ADD COLUMN published boolean;
ALTER TABLE ip_policy_rule ADD COLUMN published text;
CREATE INDEX ip_policy_unpublished ON ip_policy (id) WHERE published IS NULL;
CREATE INDEX ip_policy_rule_unpublished ON ip_policy_rule (id) WHERE published IS DISTINCT FROM cidr;
