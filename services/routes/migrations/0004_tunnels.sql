-- Endpoints of type cloud are objects, which somebody made; those of edges are not.
ALTER TABLE endpoint ADD COLUMN object_id text COLLATE "C" REFERENCES object ON DELETE CASCADE;
ALTER TABLE endpoint ALTER COLUMN edge_id DROP NOT NULL;
ALTER TABLE endpoint ADD CONSTRAINT endpoint_of_one CHECK ((edge_id IS NULL) = (object_id IS NOT NULL));
CREATE UNIQUE INDEX endpoint_object ON endpoint (object_id) WHERE object_id IS NOT NULL;

-- One endpoint a hostport, but for those that pool; internal names are each account's own.
ALTER TABLE endpoint DROP CONSTRAINT endpoint_hostport;
CREATE UNIQUE INDEX endpoint_hostport ON endpoint (hostport, (CASE binding WHEN 'internal' THEN account_id ELSE '' END))
    WHERE NOT pooling_enabled;
CREATE INDEX endpoint_pool ON endpoint (hostport) WHERE pooling_enabled;

-- Connected agents and their tunnels. Agents bring and take the rows.
CREATE TABLE tunnel_session (
    id            text PRIMARY KEY COLLATE "C",
    account_id    text NOT NULL,
    agent_version text NOT NULL,
    credential_id text,
    ip            text NOT NULL,
    metadata      text NOT NULL DEFAULT '',
    os            text NOT NULL,
    region        text NOT NULL DEFAULT '',
    started_at    timestamptz NOT NULL,
    transport     text NOT NULL
);
CREATE INDEX tunnel_session_account ON tunnel_session (account_id, id);

CREATE TABLE tunnel (
    id                text PRIMARY KEY COLLATE "C",
    account_id        text NOT NULL,
    public_url        text NOT NULL DEFAULT '',
    started_at        timestamptz NOT NULL,
    metadata          text NOT NULL DEFAULT '',
    proto             text NOT NULL DEFAULT '',
    region            text NOT NULL DEFAULT '',
    tunnel_session_id text NOT NULL COLLATE "C" REFERENCES tunnel_session ON DELETE CASCADE,
    endpoint_id       text COLLATE "C",
    labels            jsonb NOT NULL DEFAULT '{}',
    backends          jsonb NOT NULL DEFAULT '[]',
    forwards_to       text NOT NULL DEFAULT ''
);
CREATE INDEX tunnel_account ON tunnel (account_id, id);
CREATE INDEX tunnel_of_session ON tunnel (tunnel_session_id);
