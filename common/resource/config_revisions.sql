-- The newest revisions of this log. A worker that has another one has it of a history that was lost, by a backup that was put back or a
-- standby that lacked the last commits: it gets everything anew.
CREATE TABLE config_revision (revision bigint PRIMARY KEY);
INSERT INTO config_revision (revision) SELECT revision FROM config_head;
