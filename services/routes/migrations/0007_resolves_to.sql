-- Regions that nobody gave are none, not an empty list.
ALTER TABLE reserved_domain ALTER COLUMN resolves_to DROP NOT NULL;
UPDATE reserved_domain SET resolves_to = NULL WHERE resolves_to = '[]';
