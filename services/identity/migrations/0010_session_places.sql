-- By which module of which route the session was made: "route module made_id", where made_id is what postern-routes tells one module from another by that
-- the route had before it; NULL: of a version that did not know, until sign_in.tidy fills it in.
ALTER TABLE sign_in_session ADD COLUMN place text COLLATE "C";
CREATE INDEX sign_in_session_place ON sign_in_session (place);
CREATE INDEX sign_in_session_placeless ON sign_in_session (session_id) WHERE place IS NULL;
