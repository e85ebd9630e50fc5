-- A keyed hash of what was asked for under the key: the same key for something else is refused. Requests from before have none.
ALTER TABLE request ADD COLUMN fingerprint text;
