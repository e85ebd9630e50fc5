-- Where the session counts (session_place): its place (above), and more, such as behind what prefix its cookie was set. NULL: of a version that did
-- not note it, until sign_in.tidy fills in what is known. place stays, for copies of that version that run beside this one.
ALTER TABLE sign_in_session ADD COLUMN counts_at text COLLATE "C";
CREATE INDEX sign_in_session_counts_at ON sign_in_session (counts_at);
CREATE INDEX sign_in_session_counts_nowhere ON sign_in_session (session_id) WHERE counts_at IS NULL;
