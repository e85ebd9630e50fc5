CREATE TABLE agent_ingress (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    domain      text NOT NULL CONSTRAINT agent_ingress_domain UNIQUE,
    ns_targets  jsonb NOT NULL,
    region_domains jsonb NOT NULL,
    certificate_management_policy jsonb
);
CREATE INDEX agent_ingress_account ON agent_ingress (account_id, id);

-- What edges serve, a row each hostport; replaces the list that only kept them apart. Not objects:
-- nothing refers to them.
CREATE TABLE endpoint (
    id          text PRIMARY KEY COLLATE "C",
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT date_trunc('second', now()),
    updated_at  timestamptz NOT NULL DEFAULT date_trunc('second', now()),
    region      text NOT NULL DEFAULT '',
    public_url  text NOT NULL,
    proto       text NOT NULL,
    scheme      text NOT NULL,
    hostport    text NOT NULL CONSTRAINT endpoint_hostport UNIQUE,
    host        text NOT NULL,
    port        integer NOT NULL,
    type        text NOT NULL DEFAULT 'edge',
    metadata    text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    domain_id   text COLLATE "C",
    tcp_addr_id text COLLATE "C",
    edge_id     text NOT NULL COLLATE "C" REFERENCES object ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    upstream_url text NOT NULL DEFAULT '',
    upstream_protocol text NOT NULL DEFAULT '',
    url         text NOT NULL,
    principal_id text,
    traffic_policy text NOT NULL DEFAULT '',
    bindings    jsonb NOT NULL DEFAULT '["public"]',
    binding     text NOT NULL DEFAULT 'public',
    name        text NOT NULL DEFAULT '',
    pooling_enabled boolean NOT NULL DEFAULT false
);
CREATE INDEX endpoint_account ON endpoint (account_id, id);
CREATE INDEX endpoint_edge ON endpoint (edge_id);

-- Ids of those that are there already: the time of their edge, the rest from the name.
INSERT INTO endpoint (id, account_id, public_url, proto, scheme, hostport, host, port, edge_id, url, domain_id, tcp_addr_id)
SELECT 'ep_' || left(right(h.edge_id, 27), 22) || left(md5(h.hostport), 5), o.account_id, k.url, k.proto, k.proto,
       h.hostport, split_part(h.hostport, ':', 1), split_part(h.hostport, ':', 2)::int, h.edge_id, k.url,
       (SELECT r.to_id FROM ref r JOIN object t ON t.id = r.to_id JOIN reserved_domain d ON d.id = t.id
         WHERE r.from_id = h.edge_id AND d.domain IN (split_part(h.hostport, ':', 1), regexp_replace(split_part(h.hostport, ':', 1), '^[^.]*', '*'))
         ORDER BY d.domain DESC LIMIT 1),
       (SELECT a.id FROM reserved_addr a WHERE a.addr = h.hostport)
FROM edge_hostport h
JOIN object o ON o.id = h.edge_id
CROSS JOIN LATERAL (SELECT left(o.kind, strpos(o.kind, '_') - 1) AS proto) p
CROSS JOIN LATERAL (SELECT p.proto, CASE p.proto WHEN 'https' THEN 'https://' || split_part(h.hostport, ':', 1)
                                             ELSE p.proto || '://' || h.hostport END AS url) k;
DROP TABLE edge_hostport;
