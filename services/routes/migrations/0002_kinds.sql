-- Hostports of every kind of edge share one table: one edge per hostport.
ALTER TABLE https_edge_hostport RENAME TO edge_hostport;

CREATE TABLE weighted_backend (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    backends    jsonb NOT NULL
);
CREATE INDEX weighted_backend_account ON weighted_backend (account_id, id);

CREATE TABLE failover_backend (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    backends    jsonb NOT NULL
);
CREATE INDEX failover_backend_account ON failover_backend (account_id, id);

CREATE TABLE tunnel_group_backend (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    labels      jsonb NOT NULL
);
CREATE INDEX tunnel_group_backend_account ON tunnel_group_backend (account_id, id);

CREATE TABLE tcp_edge (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    hostports   jsonb,
    backend jsonb, ip_restriction jsonb, traffic_policy jsonb
);
CREATE INDEX tcp_edge_account ON tcp_edge (account_id, id);

CREATE TABLE tls_edge (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    hostports   jsonb NOT NULL,
    backend jsonb, ip_restriction jsonb, mutual_tls jsonb, tls_termination jsonb, traffic_policy jsonb
);
CREATE INDEX tls_edge_account ON tls_edge (account_id, id);

CREATE TABLE ip_policy (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL
);
CREATE INDEX ip_policy_account ON ip_policy (account_id, id);

CREATE TABLE ip_policy_rule (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    cidr        text NOT NULL,
    ip_policy_id text NOT NULL,
    action      text NOT NULL,
    CONSTRAINT ip_policy_rule_cidr UNIQUE (ip_policy_id, cidr)
);
CREATE INDEX ip_policy_rule_account ON ip_policy_rule (account_id, id);

CREATE TABLE reserved_addr (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    addr        text NOT NULL UNIQUE,
    region      text NOT NULL,
    port        int NOT NULL UNIQUE
);
CREATE INDEX reserved_addr_account ON reserved_addr (account_id, id);

CREATE TABLE certificate_authority (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    ca_pem      text NOT NULL,
    subject_common_name text NOT NULL,
    not_before  timestamptz NOT NULL,
    not_after   timestamptz NOT NULL,
    key_usages  jsonb NOT NULL,
    extended_key_usages jsonb NOT NULL
);
CREATE INDEX certificate_authority_account ON certificate_authority (account_id, id);

CREATE TABLE ip_restriction (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    enforced    boolean NOT NULL,
    type        text NOT NULL,
    ip_policy_ids jsonb NOT NULL,
    CONSTRAINT ip_restriction_type UNIQUE (account_id, type)
);
CREATE INDEX ip_restriction_account ON ip_restriction (account_id, id);
