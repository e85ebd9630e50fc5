-- The revision of the newest sign-in module by which a session was judged: an older one, which an edge that lags behind has still, neither ends it nor sets
-- its times. 0: of a version that did not know of revisions, or by a module that such a version sealed.
ALTER TABLE sign_in_session ADD COLUMN rules_revision bigint NOT NULL DEFAULT 0;
