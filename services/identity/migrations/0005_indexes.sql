-- A delete looks for what refers to the row: without these it read every owner, key and credential.
CREATE INDEX owner_object ON owner (object_id) WHERE object_id IS NOT NULL;
CREATE INDEX api_key_owner ON api_key (owner_id);
CREATE INDEX credential_owner ON credential (owner_id);
CREATE INDEX ssh_credential_owner ON ssh_credential (owner_id);
