-- Deletions are forgotten again: all of them up to this revision may be. Whoever has an older revision than that, but not none, gets
-- everything anew, because what it still serves may have been deleted since.
ALTER TABLE config_head ADD COLUMN forgotten bigint NOT NULL DEFAULT 0;
CREATE INDEX config_entry_deleted ON config_entry (revision) WHERE doc IS NULL;
