-- A database that one user owned all of, as Postern made it up to then, with rows of every service; for tests/e2e/database-before.test.mjs.
-- Nothing in it is anybody's secret.
-- master key: f96474dfc5d4050a51dffb86f9f2043947040ec3f178138e1fca4b84d0c2958a
-- POSTERN_API_KEY=3MUxySFGFeZPhtPL31gmb3Xbprl_lJdRiIiHxc5evDt4Nm0II
-- POSTERN_ACCOUNT=ac_3MUxyRdsCA1flcPV90ozF6s9DiZ
-- POSTERN_DEMO_HOST=demo.localhost
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA events;
CREATE SCHEMA identity;
CREATE SCHEMA routes;
CREATE FUNCTION events.count_object() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'events'
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO object_count VALUES (NEW.account_id, NEW.kind, pg_backend_pid() % 16, 1)
        ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n + 1;
        RETURN NEW;
    END IF;
    INSERT INTO object_count VALUES (OLD.account_id, OLD.kind, pg_backend_pid() % 16, -1)
    ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n - 1;
    RETURN OLD;
END
$$;
CREATE FUNCTION identity.count_object() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'identity'
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO object_count VALUES (NEW.account_id, NEW.kind, pg_backend_pid() % 16, 1)
        ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n + 1;
        RETURN NEW;
    END IF;
    INSERT INTO object_count VALUES (OLD.account_id, OLD.kind, pg_backend_pid() % 16, -1)
    ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n - 1;
    RETURN OLD;
END
$$;
CREATE FUNCTION routes.count_object() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'routes'
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO object_count VALUES (NEW.account_id, NEW.kind, pg_backend_pid() % 16, 1)
        ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n + 1;
        RETURN NEW;
    END IF;
    INSERT INTO object_count VALUES (OLD.account_id, OLD.kind, pg_backend_pid() % 16, -1)
    ON CONFLICT (account_id, kind, shard) DO UPDATE SET n = object_count.n - 1;
    RETURN OLD;
END
$$;
CREATE FUNCTION routes.https_edge_route_place(match text, match_type text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT match_type || ' ' || lower(split_part(match, '/', 1))
       || CASE WHEN strpos(match, '/') = 0 THEN '/' ELSE substr(match, strpos(match, '/')) END $$;
CREATE FUNCTION routes.place_https_edge_route() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.edge_id, NEW.match, NEW.match_type) IS DISTINCT FROM (OLD.edge_id, OLD.match, OLD.match_type) THEN
        NEW.place := https_edge_route_place(NEW.match, NEW.match_type);
    ELSE
        NEW.place := OLD.place;
    END IF;
    RETURN NEW;
END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE events.event_destination (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    format text NOT NULL,
    target jsonb NOT NULL
);
CREATE TABLE events.event_subscription (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    sources jsonb NOT NULL,
    destination_ids jsonb NOT NULL
);
CREATE TABLE events.log (
    event_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL,
    account_id text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    event jsonb NOT NULL
);
CREATE TABLE events.migration (
    number integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE events.object (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    kind text NOT NULL,
    parent_id text
);
CREATE TABLE events.object_count (
    account_id text NOT NULL,
    kind text NOT NULL,
    shard integer NOT NULL,
    n bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE events.outbox (
    seq bigint NOT NULL,
    event jsonb NOT NULL
);
CREATE SEQUENCE events.outbox_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE events.outbox_seq_seq OWNED BY events.outbox.seq;
CREATE TABLE events.producer (
    name text NOT NULL,
    last_seq bigint NOT NULL,
    events bigint NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    dropped bigint DEFAULT 0 NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE events.ref (
    from_id text NOT NULL,
    path text NOT NULL,
    to_id text NOT NULL
);
CREATE TABLE events.request (
    key text NOT NULL,
    verb text NOT NULL,
    object_id text,
    revision bigint,
    at timestamp with time zone DEFAULT now() NOT NULL,
    fingerprint text
);
CREATE TABLE identity.account (
    id text NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE identity.api_key (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    owner_id text NOT NULL,
    token_hash text NOT NULL
);
CREATE TABLE identity.application_session (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    public_url text NOT NULL,
    browser_session jsonb NOT NULL,
    application_user_id text,
    last_active timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    endpoint_id text,
    edge_id text,
    route_id text
);
CREATE TABLE identity.application_user (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    identity_provider jsonb NOT NULL,
    provider_user_id text NOT NULL,
    username text NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    last_active timestamp with time zone NOT NULL,
    last_login timestamp with time zone NOT NULL
);
CREATE TABLE identity.bot_user (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    active boolean NOT NULL
);
CREATE TABLE identity.credential (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    owner_id text NOT NULL,
    acl jsonb NOT NULL,
    token_hash text NOT NULL
);
CREATE TABLE identity.migration (
    number integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE identity.object (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    kind text NOT NULL,
    parent_id text
);
CREATE TABLE identity.object_count (
    account_id text NOT NULL,
    kind text NOT NULL,
    shard integer NOT NULL,
    n bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE identity.outbox (
    seq bigint NOT NULL,
    event jsonb NOT NULL
);
CREATE SEQUENCE identity.outbox_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE identity.outbox_seq_seq OWNED BY identity.outbox.seq;
CREATE TABLE identity.owner (
    id text NOT NULL,
    account_id text NOT NULL,
    email text NOT NULL,
    active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    object_id text
);
CREATE TABLE identity.ref (
    from_id text NOT NULL,
    path text NOT NULL,
    to_id text NOT NULL
);
CREATE TABLE identity.request (
    key text NOT NULL,
    verb text NOT NULL,
    object_id text,
    revision bigint,
    at timestamp with time zone DEFAULT now() NOT NULL,
    fingerprint text
);
CREATE TABLE identity.secret (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    created_by text NOT NULL,
    last_updated_by text NOT NULL,
    vault_id text NOT NULL,
    vault_name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE identity.service_user (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    active boolean NOT NULL
);
CREATE TABLE identity.ssh_certificate_authority (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    public_key text NOT NULL,
    key_type text NOT NULL,
    private_key_pem text NOT NULL
);
CREATE TABLE identity.ssh_credential (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    owner_id text NOT NULL,
    acl jsonb NOT NULL,
    public_key text NOT NULL,
    key_blob text NOT NULL
);
CREATE TABLE identity.ssh_host_certificate (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    public_key text NOT NULL,
    key_type text NOT NULL,
    ssh_certificate_authority_id text NOT NULL,
    principals jsonb NOT NULL,
    valid_after timestamp with time zone NOT NULL,
    valid_until timestamp with time zone NOT NULL,
    certificate text NOT NULL
);
CREATE TABLE identity.ssh_user_certificate (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    public_key text NOT NULL,
    key_type text NOT NULL,
    ssh_certificate_authority_id text NOT NULL,
    principals jsonb NOT NULL,
    valid_after timestamp with time zone NOT NULL,
    valid_until timestamp with time zone NOT NULL,
    certificate text NOT NULL,
    critical_options jsonb NOT NULL,
    extensions jsonb NOT NULL
);
CREATE TABLE identity.vault (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    created_by text NOT NULL,
    last_updated_by text NOT NULL
);
CREATE TABLE routes.agent_ingress (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    domain text NOT NULL,
    ns_targets jsonb NOT NULL,
    region_domains jsonb NOT NULL,
    certificate_management_policy jsonb
);
CREATE TABLE routes.certificate_authority (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    ca_pem text NOT NULL,
    subject_common_name text NOT NULL,
    not_before timestamp with time zone NOT NULL,
    not_after timestamp with time zone NOT NULL,
    key_usages jsonb NOT NULL,
    extended_key_usages jsonb NOT NULL
);
CREATE TABLE routes.config_entry (
    kind text NOT NULL,
    id text NOT NULL,
    revision bigint NOT NULL,
    doc text
);
CREATE TABLE routes.config_head (
    one boolean DEFAULT true NOT NULL,
    log_id text NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT config_head_one_check CHECK (one)
);
CREATE TABLE routes.endpoint (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone DEFAULT date_trunc('second'::text, now()) NOT NULL,
    updated_at timestamp with time zone DEFAULT date_trunc('second'::text, now()) NOT NULL,
    region text DEFAULT ''::text NOT NULL,
    public_url text NOT NULL,
    proto text NOT NULL,
    scheme text NOT NULL,
    hostport text NOT NULL,
    host text NOT NULL,
    port integer NOT NULL,
    type text DEFAULT 'edge'::text NOT NULL,
    metadata text DEFAULT ''::text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    domain_id text COLLATE pg_catalog."C",
    tcp_addr_id text COLLATE pg_catalog."C",
    edge_id text COLLATE pg_catalog."C",
    upstream_url text DEFAULT ''::text NOT NULL,
    upstream_protocol text DEFAULT ''::text NOT NULL,
    url text NOT NULL,
    principal_id text,
    traffic_policy text DEFAULT ''::text NOT NULL,
    bindings jsonb DEFAULT '["public"]'::jsonb NOT NULL,
    binding text DEFAULT 'public'::text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    pooling_enabled boolean DEFAULT false NOT NULL,
    object_id text COLLATE pg_catalog."C",
    CONSTRAINT endpoint_of_one CHECK (((edge_id IS NULL) = (object_id IS NOT NULL)))
);
CREATE TABLE routes.failover_backend (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    backends jsonb NOT NULL
);
CREATE TABLE routes.http_response_backend (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    body text NOT NULL,
    headers jsonb NOT NULL,
    status_code integer NOT NULL
);
CREATE TABLE routes.https_edge (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    hostports jsonb NOT NULL,
    mutual_tls jsonb,
    tls_termination jsonb
);
CREATE TABLE routes.https_edge_route (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    edge_id text NOT NULL,
    match_type text NOT NULL,
    match text NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    backend jsonb,
    ip_restriction jsonb,
    circuit_breaker jsonb,
    compression jsonb,
    request_headers jsonb,
    response_headers jsonb,
    webhook_verification jsonb,
    oauth jsonb,
    saml jsonb,
    oidc jsonb,
    websocket_tcp_converter jsonb,
    user_agent_filter jsonb,
    traffic_policy jsonb,
    place text COLLATE pg_catalog."C"
);
CREATE TABLE routes.ip_policy (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL
);
CREATE TABLE routes.ip_policy_rule (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    cidr text NOT NULL,
    ip_policy_id text NOT NULL,
    action text NOT NULL
);
CREATE TABLE routes.ip_restriction (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    enforced boolean NOT NULL,
    type text NOT NULL,
    ip_policy_ids jsonb NOT NULL
);
CREATE TABLE routes.local_authority (
    one boolean DEFAULT true NOT NULL,
    certificate_pem text NOT NULL,
    key_sealed text NOT NULL,
    CONSTRAINT local_authority_one_check CHECK (one)
);
CREATE TABLE routes.migration (
    number integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE routes.name_claim (
    name text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE routes.object (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    kind text NOT NULL,
    parent_id text
);
CREATE TABLE routes.object_count (
    account_id text NOT NULL,
    kind text NOT NULL,
    shard integer NOT NULL,
    n bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE routes.outbox (
    seq bigint NOT NULL,
    event jsonb NOT NULL
);
CREATE SEQUENCE routes.outbox_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE routes.outbox_seq_seq OWNED BY routes.outbox.seq;
CREATE TABLE routes.ref (
    from_id text NOT NULL,
    path text NOT NULL,
    to_id text NOT NULL
);
CREATE TABLE routes.request (
    key text NOT NULL,
    verb text NOT NULL,
    object_id text,
    revision bigint,
    at timestamp with time zone DEFAULT now() NOT NULL,
    fingerprint text
);
CREATE TABLE routes.reserved_addr (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    addr text NOT NULL,
    region text NOT NULL,
    port integer NOT NULL
);
CREATE TABLE routes.reserved_domain (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    domain text NOT NULL,
    region text NOT NULL,
    certificate_id text,
    certificate_management_policy jsonb,
    resolves_to jsonb,
    local_certificate_pem text,
    local_key_sealed text
);
CREATE TABLE routes.static_backend (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    address text NOT NULL,
    tls jsonb NOT NULL
);
CREATE TABLE routes.tcp_edge (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    hostports jsonb,
    backend jsonb,
    ip_restriction jsonb,
    traffic_policy jsonb
);
CREATE TABLE routes.tls_certificate (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    certificate_pem text NOT NULL,
    private_key_pem text NOT NULL,
    subject_common_name text NOT NULL,
    subject_alternative_names jsonb NOT NULL,
    not_before timestamp with time zone NOT NULL,
    not_after timestamp with time zone NOT NULL,
    key_usages jsonb NOT NULL,
    extended_key_usages jsonb NOT NULL,
    private_key_type text NOT NULL,
    issuer_common_name text NOT NULL,
    serial_number text NOT NULL,
    subject_organization text NOT NULL,
    subject_organizational_unit text NOT NULL,
    subject_locality text NOT NULL,
    subject_province text NOT NULL,
    subject_country text NOT NULL
);
CREATE TABLE routes.tls_edge (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    hostports jsonb NOT NULL,
    backend jsonb,
    ip_restriction jsonb,
    mutual_tls jsonb,
    tls_termination jsonb,
    traffic_policy jsonb
);
CREATE TABLE routes.tunnel (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    public_url text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    metadata text DEFAULT ''::text NOT NULL,
    proto text DEFAULT ''::text NOT NULL,
    region text DEFAULT ''::text NOT NULL,
    tunnel_session_id text NOT NULL COLLATE pg_catalog."C",
    endpoint_id text COLLATE pg_catalog."C",
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    backends jsonb DEFAULT '[]'::jsonb NOT NULL,
    forwards_to text DEFAULT ''::text NOT NULL
);
CREATE TABLE routes.tunnel_group_backend (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    labels jsonb NOT NULL
);
CREATE TABLE routes.tunnel_session (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    agent_version text NOT NULL,
    credential_id text,
    ip text NOT NULL,
    metadata text DEFAULT ''::text NOT NULL,
    os text NOT NULL,
    region text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    transport text NOT NULL
);
CREATE TABLE routes.weighted_backend (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    description text NOT NULL,
    metadata text NOT NULL,
    backends jsonb NOT NULL
);
ALTER TABLE ONLY events.outbox ALTER COLUMN seq SET DEFAULT nextval('events.outbox_seq_seq'::regclass);
ALTER TABLE ONLY identity.outbox ALTER COLUMN seq SET DEFAULT nextval('identity.outbox_seq_seq'::regclass);
ALTER TABLE ONLY routes.outbox ALTER COLUMN seq SET DEFAULT nextval('routes.outbox_seq_seq'::regclass);
COPY events.event_destination (id, account_id, created_at, description, metadata, format, target) FROM stdin;
ed_3MUzD2GNH0vy0i1PpoctVaklcUL	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00			json	{"datadog": null, "kinesis": {"auth": {"role": null, "creds": {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "AytZm+67eR/EyU5SX+0lYDRQECR9KyaIUqpo5YHI3aEAoFMwcLT1EhYJOA=="}}, "stream_arn": "arn:aws:kinesis:us-east-1:123456789012:stream/x"}, "firehose": null, "cloudwatch_logs": null, "azure_logs_ingestion": null}
\.
COPY events.event_subscription (id, account_id, created_at, description, metadata, sources, destination_ids) FROM stdin;
\.
COPY events.log (event_id, event_type, account_id, at, event) FROM stdin;
ev_3MUxySL643hM88Ee6fZ5AryHxF6	api_key_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21.349557+00	{"object": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "token": null, "metadata": "", "owner_id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "created_at": "2026-11-23T07:33:21Z", "description": "made by deploy/stack"}, "event_id": "ev_3MUxySL643hM88Ee6fZ5AryHxF6", "principal": null, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "api_key_created.v0", "event_timestamp": "2026-11-23T07:33:21Z"}
ev_3MUxyTHRJU9yfLwPoVN35yu77W0	domain_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21.478829+00	{"object": {"id": "rd_3MUxySyTr0vPesbMEQICOrO9fgW", "uri": "http://127.0.0.1:20100/reserved_domains/rd_3MUxySyTr0vPesbMEQICOrO9fgW", "domain": "demo.localhost", "region": "", "metadata": "", "created_at": "2026-11-23T07:33:21Z", "certificate": null, "description": "demo", "resolves_to": null, "cname_target": null, "acme_challenge_cname_target": null, "certificate_management_policy": null, "certificate_management_status": null}, "event_id": "ev_3MUxyTHRJU9yfLwPoVN35yu77W0", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "domain_created.v0", "event_timestamp": "2026-11-23T07:33:21Z"}
ev_3MUxyXDyUY3PDiNNx0dQ59eyvTJ	https_edge_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:22.019688+00	{"object": {"id": "edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr", "uri": "http://127.0.0.1:20100/edges/https/edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr", "routes": [], "metadata": "", "hostports": ["demo.localhost:443"], "created_at": "2026-11-23T07:33:21Z", "mutual_tls": null, "description": "demo", "tls_termination": null}, "event_id": "ev_3MUxyXDyUY3PDiNNx0dQ59eyvTJ", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "https_edge_created.v0", "event_timestamp": "2026-11-23T07:33:21Z"}
ev_3MUxyYF7OuzpmbNQGaj4yGKioDo	static_backend_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:22.091653+00	{"object": {"id": "bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo", "tls": {"enabled": false}, "uri": "http://127.0.0.1:20100/backends/static/bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo", "address": "127.0.0.1:20101", "metadata": "", "created_at": "2026-11-23T07:33:22Z", "description": "demo"}, "event_id": "ev_3MUxyYF7OuzpmbNQGaj4yGKioDo", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "static_backend_created.v0", "event_timestamp": "2026-11-23T07:33:22Z"}
ev_3MUxyZ3FkpT8TLVJRlEbobNSDb8	https_edge_route_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:22.208441+00	{"object": {"id": "edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt", "uri": "http://127.0.0.1:20100/edges/https/edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr/routes/edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt", "oidc": null, "saml": null, "match": "/", "oauth": null, "policy": null, "backend": {"backend": {"id": "bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo", "uri": "http://127.0.0.1:20100/backends/static/bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo"}, "enabled": true}, "edge_id": "edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr", "metadata": "", "created_at": "2026-11-23T07:33:22Z", "match_type": "path_prefix", "compression": null, "description": "", "ip_restriction": null, "traffic_policy": null, "circuit_breaker": null, "request_headers": null, "response_headers": null, "user_agent_filter": null, "webhook_verification": null, "websocket_tcp_converter": null}, "event_id": "ev_3MUxyZ3FkpT8TLVJRlEbobNSDb8", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "https_edge_route_created.v0", "event_timestamp": "2026-11-23T07:33:22Z"}
ev_3MUzCy2W0Llam7BSVyJHAxwPj60	domain_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.176428+00	{"object": {"id": "rd_3MUzCxt4OdjsHP98ZQymuDglUh8", "uri": "http://127.0.0.1:20100/reserved_domains/rd_3MUzCxt4OdjsHP98ZQymuDglUh8", "domain": "old.example.test", "region": "", "metadata": "", "created_at": "2026-11-23T07:43:30Z", "certificate": null, "description": "", "resolves_to": null, "cname_target": null, "acme_challenge_cname_target": null, "certificate_management_policy": null, "certificate_management_status": null}, "event_id": "ev_3MUzCy2W0Llam7BSVyJHAxwPj60", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "domain_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzCyoh7WMXthCKKi7nhc1DTM4	http_response_backend_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.281258+00	{"object": {"id": "bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B", "uri": "http://127.0.0.1:20100/backends/http_response/bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B", "body": "made before\\n", "headers": {}, "metadata": "", "created_at": "2026-11-23T07:43:30Z", "description": "", "status_code": 200}, "event_id": "ev_3MUzCyoh7WMXthCKKi7nhc1DTM4", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "http_response_backend_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzCzDjj4wSelvODka53cOHDUU	https_edge_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.346367+00	{"object": {"id": "edghts_3MUzCz7xwSif3QMonHOsd9SjxJR", "uri": "http://127.0.0.1:20100/edges/https/edghts_3MUzCz7xwSif3QMonHOsd9SjxJR", "routes": [], "metadata": "", "hostports": ["old.example.test:443"], "created_at": "2026-11-23T07:43:30Z", "mutual_tls": null, "description": "", "tls_termination": null}, "event_id": "ev_3MUzCzDjj4wSelvODka53cOHDUU", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "https_edge_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzCzkd0f6LitY4hqvY8EyF8wD	https_edge_route_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.426334+00	{"object": {"id": "edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B", "uri": "http://127.0.0.1:20100/edges/https/edghts_3MUzCz7xwSif3QMonHOsd9SjxJR/routes/edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B", "oidc": null, "saml": null, "match": "/", "oauth": null, "policy": null, "backend": {"backend": {"id": "bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B", "uri": "http://127.0.0.1:20100/backends/http_response/bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B"}, "enabled": true}, "edge_id": "edghts_3MUzCz7xwSif3QMonHOsd9SjxJR", "metadata": "", "created_at": "2026-11-23T07:43:30Z", "match_type": "path_prefix", "compression": null, "description": "", "ip_restriction": null, "traffic_policy": null, "circuit_breaker": null, "request_headers": null, "response_headers": null, "user_agent_filter": null, "webhook_verification": null, "websocket_tcp_converter": null}, "event_id": "ev_3MUzCzkd0f6LitY4hqvY8EyF8wD", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "https_edge_route_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD0EnRa5hphdQSa0JnbiS1vu	bot_user_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.474774+00	{"object": {"id": "bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43", "uri": "http://127.0.0.1:20100/bot_users/bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43", "name": "made before", "active": true, "created_at": "2026-11-23T07:43:30Z"}, "event_id": "ev_3MUzD0EnRa5hphdQSa0JnbiS1vu", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "bot_user_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD18yV5SW3zkQcDk4MY2K0zA	vault_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.608124+00	{"object": {"id": "vault_3MUzD0s8HHamiIcGek29UqaGGBt", "uri": "http://127.0.0.1:20100/vaults/vault_3MUzD0s8HHamiIcGek29UqaGGBt", "name": "before", "metadata": "", "created_at": "2026-11-23T07:43:30Z", "created_by": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "updated_at": "2026-11-23T07:43:30Z", "description": "", "last_updated_by": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne"}, "event_id": "ev_3MUzD18yV5SW3zkQcDk4MY2K0zA", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "vault_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD1lkKxwsQ9XyAwRAkHgDZXu	secret_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.689961+00	{"object": {"id": "secret_3MUzD1f71AqnWPPg5SmDptDR6Td", "uri": "http://127.0.0.1:20100/vault_secrets/secret_3MUzD1f71AqnWPPg5SmDptDR6Td", "name": "s", "vault": {"id": "vault_3MUzD0s8HHamiIcGek29UqaGGBt", "uri": "http://127.0.0.1:20100/vaults/vault_3MUzD0s8HHamiIcGek29UqaGGBt"}, "metadata": "", "created_at": "2026-11-23T07:43:30Z", "created_by": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "uri": ""}, "updated_at": "2026-11-23T07:43:30Z", "vault_name": "before", "description": "", "last_updated_by": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "uri": ""}}, "event_id": "ev_3MUzD1lkKxwsQ9XyAwRAkHgDZXu", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "secret_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD2RmS4iNoCdpRY5It70b4FO	event_destination_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.78885+00	{"object": {"id": "ed_3MUzD2GNH0vy0i1PpoctVaklcUL", "uri": "http://127.0.0.1:20100/event_destinations/ed_3MUzD2GNH0vy0i1PpoctVaklcUL", "format": "json", "target": {"datadog": null, "kinesis": {"auth": {"role": null, "creds": {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": ""}}, "stream_arn": "arn:aws:kinesis:us-east-1:123456789012:stream/x"}, "firehose": null, "cloudwatch_logs": null, "azure_logs_ingestion": null}, "metadata": "", "created_at": "2026-11-23T07:43:30Z", "description": ""}, "event_id": "ev_3MUzD2RmS4iNoCdpRY5It70b4FO", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "event_destination_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD2zixDCGK9aouhpM5dQPH4C	http_response_backend_created.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.850914+00	{"object": {"id": "bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh", "uri": "http://127.0.0.1:20100/backends/http_response/bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh", "body": "deleted before", "headers": {}, "metadata": "", "created_at": "2026-11-23T07:43:30Z", "description": "", "status_code": 200}, "event_id": "ev_3MUzD2zixDCGK9aouhpM5dQPH4C", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "http_response_backend_created.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
ev_3MUzD3Pb5vdOTBpTiLaMvlwDeHj	http_response_backend_deleted.v0	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30.939889+00	{"object": {"id": "bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh", "uri": "http://127.0.0.1:20100/backends/http_response/bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh", "body": "deleted before", "headers": {}, "metadata": "", "created_at": "2026-11-23T07:43:30Z", "description": "", "status_code": 200}, "event_id": "ev_3MUzD3Pb5vdOTBpTiLaMvlwDeHj", "principal": {"id": "usr_3MUxyRdsNVO3bOeVejCWZ8SJkne", "source": "API", "subject": "admin@example.test", "credential": {"id": "ak_3MUxySFGFeZPhtPL31gmb3Xbprl", "uri": "http://127.0.0.1:20100/api_keys/ak_3MUxySFGFeZPhtPL31gmb3Xbprl"}}, "account_id": "ac_3MUxyRdsCA1flcPV90ozF6s9DiZ", "event_type": "http_response_backend_deleted.v0", "event_timestamp": "2026-11-23T07:43:30Z"}
\.
COPY events.migration (number, applied_at) FROM stdin;
1	2026-11-23 07:33:19.997312+00
2	2026-11-23 07:33:19.997312+00
3	2026-11-23 07:33:19.997312+00
4	2026-11-23 07:33:19.997312+00
5	2026-11-23 07:33:19.997312+00
\.
COPY events.object (id, account_id, kind, parent_id) FROM stdin;
ed_3MUzD2GNH0vy0i1PpoctVaklcUL	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	event_destination	\N
\.
COPY events.object_count (account_id, kind, shard, n) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	event_destination	10	1
\.
COPY events.outbox (seq, event) FROM stdin;
\.
COPY events.producer (name, last_seq, events, lost, dropped, at) FROM stdin;
\.
COPY events.ref (from_id, path, to_id) FROM stdin;
\.
COPY events.request (key, verb, object_id, revision, at, fingerprint) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD281YCemeFUMq1tyVayTHXt	event_destination.create	ed_3MUzD2GNH0vy0i1PpoctVaklcUL	\N	2026-11-23 07:43:30.744661+00	02b2951bba68ee4aa7f71bd4ce5487b8ee3d152d5ac77c6118d6fb39ce3509e8
\.
COPY identity.account (id, name, created_at) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	First account	2026-11-23 07:33:21.229911+00
\.
COPY identity.api_key (id, account_id, created_at, description, metadata, owner_id, token_hash) FROM stdin;
ak_3MUxySFGFeZPhtPL31gmb3Xbprl	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21+00	made by deploy/stack		usr_3MUxyRdsNVO3bOeVejCWZ8SJkne	cb9bf5e345270aaaf939d8126db9b8b31d4cbcf3ba58fc106dec39b5c73177a9
\.
COPY identity.application_session (id, account_id, created_at, public_url, browser_session, application_user_id, last_active, expires_at, endpoint_id, edge_id, route_id) FROM stdin;
\.
COPY identity.application_user (id, account_id, created_at, identity_provider, provider_user_id, username, email, name, last_active, last_login) FROM stdin;
\.
COPY identity.bot_user (id, account_id, created_at, name, active) FROM stdin;
bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00	made before	t
\.
COPY identity.credential (id, account_id, created_at, description, metadata, owner_id, acl, token_hash) FROM stdin;
\.
COPY identity.migration (number, applied_at) FROM stdin;
1	2026-11-23 07:33:20.051427+00
2	2026-11-23 07:33:20.051427+00
3	2026-11-23 07:33:20.051427+00
4	2026-11-23 07:33:20.051427+00
5	2026-11-23 07:33:20.051427+00
6	2026-11-23 07:33:20.051427+00
7	2026-11-23 07:33:20.051427+00
8	2026-11-23 07:33:20.051427+00
\.
COPY identity.object (id, account_id, kind, parent_id) FROM stdin;
ak_3MUxySFGFeZPhtPL31gmb3Xbprl	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	api_key	\N
bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	bot_user	\N
vault_3MUzD0s8HHamiIcGek29UqaGGBt	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	vault	\N
secret_3MUzD1f71AqnWPPg5SmDptDR6Td	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	secret	\N
\.
COPY identity.object_count (account_id, kind, shard, n) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	api_key	7	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	bot_user	7	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	vault	11	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	secret	14	1
\.
COPY identity.outbox (seq, event) FROM stdin;
\.
COPY identity.owner (id, account_id, email, active, created_at, object_id) FROM stdin;
usr_3MUxyRdsNVO3bOeVejCWZ8SJkne	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	admin@example.test	t	2026-11-23 07:33:21.229911+00	\N
bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43	t	2026-11-23 07:43:30.45314+00	bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43
\.
COPY identity.ref (from_id, path, to_id) FROM stdin;
secret_3MUzD1f71AqnWPPg5SmDptDR6Td	vault_id	vault_3MUzD0s8HHamiIcGek29UqaGGBt
\.
COPY identity.request (key, verb, object_id, revision, at, fingerprint) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUxyS9uQBzsupMjNPF8pp7oIvz	api_key.create	ak_3MUxySFGFeZPhtPL31gmb3Xbprl	\N	2026-11-23 07:33:21.312895+00	6ceaf0de222f9d32335b59a4f93b5332cfffe0155b5918033079f99741f79427
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD0CgFZcPfMH244yqu0gz9po	bot_user.create	bot_3MUzD0Cx4rw5XJd8cb4lSzMxw43	\N	2026-11-23 07:43:30.45314+00	84b4cc8d9046679e45a4ec700a84e2d8aea150516ac089df963f8c4ff175bd86
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD0qapHKeKLiTx9rpj7DTo87	vault.create	vault_3MUzD0s8HHamiIcGek29UqaGGBt	\N	2026-11-23 07:43:30.545758+00	43f28314bf7b9ce67b4a54a8b38fecbf0b108b20ba7867d24493c28bf21457bd
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD1cjzmLDmjr4LfQNwHfZVL3	secret.create	secret_3MUzD1f71AqnWPPg5SmDptDR6Td	\N	2026-11-23 07:43:30.653461+00	c485a4ff7ae427b7264212c45c8767926db58d60d7259340139d441eefb0e007
\.
COPY identity.secret (id, account_id, created_at, updated_at, name, description, metadata, created_by, last_updated_by, vault_id, vault_name, value) FROM stdin;
secret_3MUzD1f71AqnWPPg5SmDptDR6Td	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00	2026-11-23 07:43:30+00	s			usr_3MUxyRdsNVO3bOeVejCWZ8SJkne	usr_3MUxyRdsNVO3bOeVejCWZ8SJkne	vault_3MUzD0s8HHamiIcGek29UqaGGBt	before	Z6fCgavkLhU7aso9fOfrsLWrRIZQYNROq2qnIGC5JOcjUZ7SaPWyds8a76ZpcnVf+0LKKdo=
\.
COPY identity.service_user (id, account_id, created_at, name, active) FROM stdin;
\.
COPY identity.ssh_certificate_authority (id, account_id, created_at, description, metadata, public_key, key_type, private_key_pem) FROM stdin;
\.
COPY identity.ssh_credential (id, account_id, created_at, description, metadata, owner_id, acl, public_key, key_blob) FROM stdin;
\.
COPY identity.ssh_host_certificate (id, account_id, created_at, description, metadata, public_key, key_type, ssh_certificate_authority_id, principals, valid_after, valid_until, certificate) FROM stdin;
\.
COPY identity.ssh_user_certificate (id, account_id, created_at, description, metadata, public_key, key_type, ssh_certificate_authority_id, principals, valid_after, valid_until, certificate, critical_options, extensions) FROM stdin;
\.
COPY identity.vault (id, account_id, created_at, updated_at, name, description, metadata, created_by, last_updated_by) FROM stdin;
vault_3MUzD0s8HHamiIcGek29UqaGGBt	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00	2026-11-23 07:43:30+00	before			usr_3MUxyRdsNVO3bOeVejCWZ8SJkne	usr_3MUxyRdsNVO3bOeVejCWZ8SJkne
\.
COPY routes.agent_ingress (id, account_id, created_at, description, metadata, domain, ns_targets, region_domains, certificate_management_policy) FROM stdin;
\.
COPY routes.certificate_authority (id, account_id, created_at, description, metadata, ca_pem, subject_common_name, not_before, not_after, key_usages, extended_key_usages) FROM stdin;
\.
COPY routes.config_entry (kind, id, revision, doc) FROM stdin;
reserved_domain	rd_3MUxyOKBAL9ycOBWGFBSlvpVCvd	1	RyepUhgyIPc0fi3FioYm7W+Ols3/qGK4dr4RUPNn8IlkcTVSdnpllqq8SE9iIhhGBVBLrFg3nCAuo74xfZ4FhNhGjzluce06yXphyw5JBMhFVfa1WeZEgt1eChTDyHpOey6Wk+W7Wiw3fk210a/1iFR+W78meNRvjejQlct/0wqaHXqIDDQR+VXO/a+hE4LAcznadMVmBUk5TBDHJjJA2tpcwPp06OSK53g0WIStaGP0BkSkVpnZ6H97viL1RtwAckfZuev6l/RZsspce92Sh1j0+4abtc5iW3zkDGJqcK5s1fX4sDJtWDqgob+cKwLqti52oxEbLmGPMZQOJIOnZIwRUwZJ5No04JKNA9buO5hBmEeLsJ5OsEDXr8G8JC8F4nxiFCp276YzGc+l6GHdK2i30W1VO0s3LFBEyMrw4xSlOOfsKSQuvaGAuFFfU+DWDCESufCZ8k+MaI01y9sU93EkXrp3ssxTk1plzzeCcFYpp/7fpwOO597nugYpUHsvSo121R/hVNwAa8JJj1Li7++vSx3T6dtc8ZyQQhR3il+pvcK0rjLd/CuZ/+r4L+EUXSjQRK+EDQmTYlx9+YwGIbFmp/iNTX0qaQdZ3zo//m2fgX9If2jphpcOjgivPP5aCTPbZlTaLImLnRrCaQzXNx4q/dM9NOyXN5ZX/qiCOQNB7k3HxCJvgBjun9FZnAiMVokBYNR+znWF0O287DmtvYbmNWZQHVaPnBSgbEYv/nicEYfn+5hbBCd4miyC6iDgcV5g1Gwo47RfwmK2FrxBt60vrt0JArTx8Pp3xU5XqY9peKqAEBMKfuTPIIr7vQYiRfqRTx3e4QyQutT3NbPv8i22yiSMw5KTgloPbMUTkhlugZexrP0A8S0K+XCriqMMSlcDXFTky77xXUHWE9u4F1rAbDUN7Yr6QHm4o7YcGZofQzCRbKaqu3aezx2OU3AOpIBH87+FcUdBoQCtvjb8P3n6SVeY6WdV89dvbfA7yQEXpq/Lt6nJK3nx//RofJdW1LZuO4R5N2m4srmBWM2cZCQ6p7TN4PfLkWLhJ0t2SlREDzfzp8XLa4NNKzbjvBe7pj0meHb2EohsSRb2eLfs/l9+ReGEmOa46I516Cv73/ll+pwG4L/wbVeydPvliy1d6ym0LbCP0pooSkzJDE7asYf72/eQbizsvIaz2EfX9ZK/sN19Faacoi3kT0henTVuVOJnlDhS7Ks/l8vaW7LxlRyG/AJ8W7Zqa9g62+aEApv70m4kaYfm1hZt4fM7cEUEOf17Ut/cJySu8pXX8X5zrm641NjfNkefjWar5IbDdHuH201Y1pNXBRFgLv6lft2BoeR4MjRZRtjVVe2W
reserved_domain	rd_3MUxySyTr0vPesbMEQICOrO9fgW	2	fR40lV1fPSo98QYnRzsxqjKsFlgfqjNgV4IRfHNmBDcNJkbH7HHHrVa14aWfVkWXHocTetzYSJW+xjKLAKyUCN7GRUx8k7tmolmqCGny7ZFSldjWn0UGfkczsepI2v9HSl5kuAwPaoUJM/ixY5G1AJfhLvx3ePxgUpZ0cUP1ONmpQSxzpfcXlhNv0yrefd7Za3yCyrr9UDb/sM8RM0FZUSyr+vM0eS0MxUDxvxZ9/+KIdtF/7p3Pqb6wN3++KH9IjltG5Xi43pI2pCmOpAeWjQQXFNF81RyzeW3CB8HDHwtl0NRg+io3D69KUEexiPtTNyfSv+bAWwCJgvidYlRSb/FeZsZGNed0S2fp3YF1tzi4qkjjniplItcVOVTX2BXmH3CQq1/sxnyab1HQkleoOxAm3ih9GSxB7ib+AwzHaPg/TnS6C4PEkaoGzKezLLMm+N41tG8Dc2keh2qDCGzctPpKB1LYvCyxGy5uPNThZnkk//7AbnLkC0PecHRnI/Kq4D40v7kRXSasKGj0rRyYOb31pxiNFbqCVzbeYeuswk3zGeWJ359MZO+O9H0RZnUXYFlaKuWCOKNG9M/JG7cMtpBu4xvl6xwkiYvjobjRZcnzkoxwUXX5rQVxmnvidPCjhy6Pqu/AaD3bk0dO/n1JTavW0AtJALjv9PuxPEhB22PqeeYv5j4LHbJnyWHcGSoESjPnaw3UPPN9GAMjQlutvQuBfAuMy7edMJswfdECAlDcfITfd3HrHzBWjH8DrlhVtduZTeWdw5D/9sadXXwJ/MYAGTjPvypJXaIDORvkrVwXAQsxOJolMWd2QLzVkDa2+1gqkQ/Cga9RsBtvdKmHpz4bTejweriyYDSEohdM134+VSElBpgypIZm/DLnqxNparfa+5p01M8ip3gap/759GE9tfh1m3dIS3zQxzj4xdl2zIMXbcvRnu3fgMnjdoOZ6IjfeukQmMaCd2HYdZWd8qY9cCbpAvIwvKiDq8gLFMs9PtWX7xcZRNB93sfp7w8+DCLOcUEb8gyKZieRJq99epNfi8uo4V6w62e/EoQFzPmyAh1cv4+q39dgy+Y+sGy+mcM86qi//h8+p8jCsO2QhoQ6MtR74VY5nGHdHzhMYMam5XsjBo2c2SAgWf31y+ER7UT8ZJoWfnX3xuhIGsbRNg6mTqe1Iq8ZF0vFu2kk22xDvtDLLnMLXHBPJo+e8qrFnE7yeTaYjThVn2a9OK6rA2UlKRGWnEnJ8JldkTiJgjs5MOVkF0/eoH9HkdLt3Wsqgo54ckU/MWC60bbwdo53didXt5venO8Cp7BPNHYBlgfuTfa3OLUGVtJlQfheCCXLUAUDavQ03vpuWGG+Mg==
https_edge	edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	3	+MDy4aCKUhDUZW2tGGRyLweQNqT1jQk7qlKIbb4jQb6Pgg97pDrBJnJlOtTSOH4hH28CtQH3ZKI+K2fiHiwSnDN5ZEUqiXhsSGPKlsaCRzJkrhd05xUi98orJGU7GQcREigF0qVr1dLKkLAucESbudKnLpjMNrRIGbQCGENU
static_backend	bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo	4	RbAeu25s59OAlgI2fVlyVNjSrD8Vn4zELrIuZM5pMsHw1b3muZHxAZnhpE1DTCx9dUk7AYDudhbLJEDEYGNLg+TNhx/AnTxnb5ocfo9caFr8/L8yw6e6yq9zk7HvoiCLdzM8IN7eI8H2ay3i/w+ISA==
https_edge_route	edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt	5	kawnLFaXByDDX5gZC45vGldSiCwJIWBW1mqD9uRg8/rWZeQTna+Qh3ktgANHraDeW5uXDvo8cXidPzp+xrobcv1YgGqMtNk8WUQZnx4v7m9MXIhbBGhC8Xyj2VJAAZu6Tz4hjJCkTgkOLA5KPf+rnyiWOXeizyewNKsb/4YXflN2ViKbjHfGPciFRbcJECQYS7EPlspabeBJ6whcuNQAgqtE6KE4r5TSXh61vBEwTTSHsVDa9QhCUHh8vETlQe6CTx8PZuhqEPn2vhh3z8ffh8wRmP2GxoxIL0Rwjk7f
reserved_domain	rd_3MUzCxt4OdjsHP98ZQymuDglUh8	6	Emj3E3l2eVHF2EOgS70RuwxmUkiC7+MFBAp2A8L5JPlns6hAzManSNTybOXQ/81DpwFLIymAofRHKDOpQZ6vTy7R7nwLlu3mwbvVYsQU+JCh7ryYp0BbsHsSI+dCTLdYPPmJTSXNepNHYQp5CTTFfl95ph8bZQMcOTQQhNaBLJuM6oG8++RUuluig5UELcGjonGWWuXERjzkuYu/py8dycbGOXuIBGYDTgm3rrU1qVKCW3re6yVlUGdf/OGQbn3CWJBvWJBybQT4GajJZULoD4y7S8xxHbvPNxSwkJJtpWxQ4p0Iu80lPFVC9i2b+OYScvXroLMOlLApRCIP5u5to1HB3RmO6RoaFhpFlnQtQJI88eHO9s7/nyClZl5YptK5bCeLwSIo6UDi+XzLUrcfnaFhFeB865eOm5EwAy26t7kxLaPjfpGM1Q4UKYd+2/qO3xl3bXv1CZOIGSc9vnFcdYgbvDJ8TRuK7jJ/Gcs43rMbCRMART6w8LmfGTh5DUZeD6b/IWRyUyg+jpJCK/Y26yDqV40/zceuOJwj4hVluUoxceigEOgIPUuip9rTHMtCBerpLcdNnNYEbDpQ9gVJinDgBY+icYLWtOXgmpL2yI+ByN1Mrcq+5nA+RHWjvlEOsWppRKaW4cz2jgMZdcaLwTgoooE19aumNixcsuGsEVzXRuhPmZwABlSQZFmAPMVz+YTH/3O76ztNgxcFXUt+Gu+a3aXd5RdEDQing54O0K7VmtTBQ1xtdo0clEkUxmYPHWP1Z0Q0rzPodukYX9RQLlvBlDuSQJMa8fMvEgt7geLpGqioeFYYyVHttlIkdHyVtKJQLanslYnzT+V4YlnJZeQqN2i4a4Z46zQ4eJ9KAoCp6oagMqFQgFJ1z9416un5H1L7qWbjRjtrROR5k2XdgGd7kT0dMagLvtk1mOi/2B5W9cj/4Dg4yImEjv2l1OLZLNK0VtBNMmSnIp9TJfUPhtY3G8DbHd5OoVMME039TQiTb4Ya6Pip0WZMCdHTSIWlfL/595/J7vIkR8jyhqwhjhvazG8jKYteBkLhiiz5sJmG5AE4CPvNRemfITnSuxvIinYOtcwDAprIcm7SEocFnd9LB/f1BD/cjyDiMiKnLts2STHW+10OnRgV5nZkGD3FlEx7MIgXNkoklk7fYGGHIJ5P8Ec7gowRMCYyyuk9kIo/yS/XXpucpeOm7h11GkIj8aH0pzjW4rHW+DusvMnN2nQ0Kw2FPyGVyz+GaLyvEHMVLAM5LkHfRN7tLCX1aXce0P1qyWrYdNqyLl3PL848XA1fbUAqEcO1nuuhD1w2Qf30bzB0aMWFf4TzFv9cvt688D8wkGFPhUaNqNTVd+3qA0L3zKr3FTk=
http_response_backend	bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B	7	erhf1Yb8YX1/RZwunMu21XI3b9I1tXQ//rvpIG4kOcx7cy46RkcuoJ8OJwoJ6PpJYkbGEi8qTGIjUoKfSTv4tBqnS5wl+s6+9t8Y1tS5AZ6pVQ==
https_edge	edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	8	dAqiFb+9SJxKoWrE+Z55SNTDEbg3jSYJlZDbTD4LsZ9cNesYY5oJ7fsIV2bpnFv8rF25V9JrMIXih29PRugnhL4JuRAKjU4TF1zK5+lxeXbueMCrZt/JLj5vJP1wvYMVlSxn+32iqO+fQVGjTvZEcmFoxIJgJus2BKVlT3PYTIo=
https_edge_route	edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B	9	h5t5+GqQN6+3GOME4iWocldo75DRh3fpa7grRjkQvZVD5qcYWHqi4RSIpMRgzSIyj8NwvFZ9y8crlI44+oSZ5fHBirZWK5W23srbB47tcubIiEQyyryHh05uE9lCrO321lypv1ATcx0DdgPanWR6oJ7A/vJCxIeyrPIzwvtUK2w9C59EkIkIWxQcCbxx+iEtwb4SXAfn9UoZBPMrkEYTA/r991CxRA0tRzKHN6Rxbu+wYdt0NoO24u4sSA5kVABO6nH1ioFHy4wIovqncB5l6pgmigowJ5NMBlYt8Luo
http_response_backend	bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh	11	\N
\.
COPY routes.config_head (one, log_id, revision) FROM stdin;
t	bd143b24-3639-407c-a619-b0619d05b516	11
\.
COPY routes.endpoint (id, account_id, created_at, updated_at, region, public_url, proto, scheme, hostport, host, port, type, metadata, description, domain_id, tcp_addr_id, edge_id, upstream_url, upstream_protocol, url, principal_id, traffic_policy, bindings, binding, name, pooling_enabled, object_id) FROM stdin;
ep_3MUxyXAVEl98zLT9vQgrS5DR4Wn	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21+00	2026-11-23 07:33:21+00		https://demo.localhost	https	https	demo.localhost:443	demo.localhost	443	edge			rd_3MUxySyTr0vPesbMEQICOrO9fgW	\N	edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr			https://demo.localhost	usr_3MUxyRdsNVO3bOeVejCWZ8SJkne		["public"]	public		f	\N
ep_3MUzCzAl7XNngvNRfGPOV8iSDBJ	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00	2026-11-23 07:43:30+00		https://old.example.test	https	https	old.example.test:443	old.example.test	443	edge			rd_3MUzCxt4OdjsHP98ZQymuDglUh8	\N	edghts_3MUzCz7xwSif3QMonHOsd9SjxJR			https://old.example.test	usr_3MUxyRdsNVO3bOeVejCWZ8SJkne		["public"]	public		f	\N
\.
COPY routes.failover_backend (id, account_id, created_at, description, metadata, backends) FROM stdin;
\.
COPY routes.http_response_backend (id, account_id, created_at, description, metadata, body, headers, status_code) FROM stdin;
bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00			made before\n	{}	200
\.
COPY routes.https_edge (id, account_id, created_at, description, metadata, hostports, mutual_tls, tls_termination) FROM stdin;
edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21+00	demo		["demo.localhost:443"]	\N	\N
edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00			["old.example.test:443"]	\N	\N
\.
COPY routes.https_edge_route (id, account_id, created_at, edge_id, match_type, match, description, metadata, backend, ip_restriction, circuit_breaker, compression, request_headers, response_headers, webhook_verification, oauth, saml, oidc, websocket_tcp_converter, user_agent_filter, traffic_policy, place) FROM stdin;
edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:22+00	edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	path_prefix	/			{"enabled": true, "backend_id": "bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo"}	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	path_prefix /
edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00	edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	path_prefix	/			{"enabled": true, "backend_id": "bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B"}	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	path_prefix /
\.
COPY routes.ip_policy (id, account_id, created_at, description, metadata) FROM stdin;
\.
COPY routes.ip_policy_rule (id, account_id, created_at, description, metadata, cidr, ip_policy_id, action) FROM stdin;
\.
COPY routes.ip_restriction (id, account_id, created_at, description, metadata, enforced, type, ip_policy_ids) FROM stdin;
\.
COPY routes.local_authority (one, certificate_pem, key_sealed) FROM stdin;
t	-----BEGIN CERTIFICATE-----\nMIIBiDCCAS2gAwIBAgIQPl4uFlG18tjWbS6+bp/P4TAKBggqhkjOPQQDAjAiMSAw\nHgYDVQQDDBdQb3N0ZXJuIGxvY2FsIGF1dGhvcml0eTAeFw0yNjExMjMwNjMzMjBa\nFw0zNjExMjAwNzMzMjBaMCIxIDAeBgNVBAMMF1Bvc3Rlcm4gbG9jYWwgYXV0aG9y\naXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEVFn8IL03dFmG2iBUYkTgXyin\ntE56vRNAN2dpTcsnABcSLJy5d29bNNIBSWwncV36Fd6R78cTNuAlY42Y3QkptKNF\nMEMwEgYDVR0TAQH/BAgwBgEB/wIBADAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0OBBYE\nFJEa74YoonceKTEEFpAQtL+eiPvTMAoGCCqGSM49BAMCA0kAMEYCIQDBNQcqPGRm\neF/DuaGfXl7hT29p1UINUy87YO17Dc8AcwIhAIZJZYN+M0eJq5lZd2X5zo7IyOkp\nT1VHObFE85IIl9f9\n-----END CERTIFICATE-----\n	5B3PzlJD0AH1BM8zsomyhlY67Ih5ahIBLqaWNyeoGHBLHeOrTWxHCttau90nanKCQaHYuyEYffOmmm7F3lKTfHOdRL6jZUWrsNYgBUq9r5uH9NT5s2S0XS1pUwxYpeALIw/XH56T/XURv7hlIYnyLEeHkWx5FEnOndbHYBEBeX9zf4/6HRaHvAnQklXJ720jW/BD7xnYGpB3WEsIHjVv4XTBmCZ3Wo11/UcbfChEA3zyRbENUDXmV9AwnbKL/9WbDCMOdyzPnrxq5zP70Z6NtLfAs4auVJ37LCfayzmUxOuX1xiVXNQykPZRYD5hFUyOp6Zs0fk2UqaAJdByvWpACGrV032JBVfhXQEbbTviG5YQo4xJJbAxiaA=
\.
COPY routes.migration (number, applied_at) FROM stdin;
1	2026-11-23 07:33:20.019262+00
2	2026-11-23 07:33:20.019262+00
3	2026-11-23 07:33:20.019262+00
4	2026-11-23 07:33:20.019262+00
5	2026-11-23 07:33:20.019262+00
6	2026-11-23 07:33:20.019262+00
7	2026-11-23 07:33:20.019262+00
8	2026-11-23 07:33:20.019262+00
9	2026-11-23 07:33:20.019262+00
10	2026-11-23 07:33:20.019262+00
11	2026-11-23 07:33:20.019262+00
12	2026-11-23 07:33:20.019262+00
\.
COPY routes.name_claim (name, account_id, owner_id) FROM stdin;
demo.localhost	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	rd_3MUxySyTr0vPesbMEQICOrO9fgW
old.example.test	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	rd_3MUzCxt4OdjsHP98ZQymuDglUh8
\.
COPY routes.object (id, account_id, kind, parent_id) FROM stdin;
rd_3MUxyOKBAL9ycOBWGFBSlvpVCvd	postern	reserved_domain	\N
rd_3MUxySyTr0vPesbMEQICOrO9fgW	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	reserved_domain	\N
edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge	\N
bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	static_backend	\N
edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge_route	edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr
rd_3MUzCxt4OdjsHP98ZQymuDglUh8	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	reserved_domain	\N
bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	http_response_backend	\N
edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge	\N
edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge_route	edghts_3MUzCz7xwSif3QMonHOsd9SjxJR
\.
COPY routes.object_count (account_id, kind, shard, n) FROM stdin;
postern	reserved_domain	12	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	reserved_domain	13	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge	4	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	static_backend	12	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge_route	13	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	reserved_domain	4	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge	13	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	https_edge_route	0	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	http_response_backend	4	1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	http_response_backend	12	0
\.
COPY routes.outbox (seq, event) FROM stdin;
\.
COPY routes.ref (from_id, path, to_id) FROM stdin;
edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	hostports[0]	rd_3MUxySyTr0vPesbMEQICOrO9fgW
edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt	backend.backend_id	bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo
edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	hostports[0]	rd_3MUzCxt4OdjsHP98ZQymuDglUh8
edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B	backend.backend_id	bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B
\.
COPY routes.request (key, verb, object_id, revision, at, fingerprint) FROM stdin;
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUxySdefuGZuiaScwQGAPvPsP5	reserved_domain.create	rd_3MUxySyTr0vPesbMEQICOrO9fgW	2	2026-11-23 07:33:21.41386+00	14247b7c3779518ab6e4c8c9d21488e88b7a093b06e6c18eed2c40f4fd871808
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUxyWy4VmoNZB4NlaMNfFPSZR6	https_edge.create	edghts_3MUxyX8SOlKVCG9uS7If5uH3xlr	3	2026-11-23 07:33:21.986832+00	9cd1759ff904c3db642edda94122b092bab1de353de1c404a9a732f2d69d9ba1
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUxyY7SU9m8xQUrx1bZCC6bTg6	static_backend.create	bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo	4	2026-11-23 07:33:22.051277+00	4511cf5fd6183e95b1cc719e97aed2ce9c55ac6f78202a0b51fa7a847385a1bf
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUxyYyuXHTXSiir2q6almkVLba	https_edge_route.create	edghtsrt_3MUxyYzrwSvdTRWRvwUdvgwjXDt	5	2026-11-23 07:33:22.169422+00	e5a67c2c6dde137ed076c7922767e9ac8b3a5f3348f50fdaac00dd82c9b2fcef
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzCxpegZwTvll2zrAxO9ETKq5	reserved_domain.create	rd_3MUzCxt4OdjsHP98ZQymuDglUh8	6	2026-11-23 07:43:30.133404+00	8dab470d659bf7ae8b991ccc56a446da1e641af41be221c38dba46b170db36de
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzCylBHGH82HTqLDagA6rnZPK	http_response_backend.create	bkdhr_3MUzCymMc3eQmxVfnt8IouGvm1B	7	2026-11-23 07:43:30.256795+00	5b4ee2fe2de67d211a9767743a8a9c1cf25bfa62ad9ca8f0d3cb18fd70d4bbea
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzCz7ZP48eOm7AY0F1jba7XyZ	https_edge.create	edghts_3MUzCz7xwSif3QMonHOsd9SjxJR	8	2026-11-23 07:43:30.30694+00	86bcd811ba271df77b4db45672c0751210b5243f9c56f1858aed1228b0137da3
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzCzTuXJftrrVw7E2FNMThhFr	https_edge_route.create	edghtsrt_3MUzCzW9wZbhr0QBdm2ynqkeg4B	9	2026-11-23 07:43:30.359479+00	db104b9bbf9feeae84442de950ec903aea65c62ae7d66eedc41480329c3835aa
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD2y8tdGhjhAWVB29JMnCoAS	http_response_backend.create	bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh	10	2026-11-23 07:43:30.834562+00	aa6a7a9b8c184ffad6559b0a486f5dde3f8e8d70bd9dbdf732054f156e8a1344
ac_3MUxyRdsCA1flcPV90ozF6s9DiZ/op_3MUzD3NeJVMY0paw71IrBlfZDdk	http_response_backend.delete	bkdhr_3MUzD2yUV2s7492DVxnKkvCcHxh	11	2026-11-23 07:43:30.892504+00	cd513932a66897f9f6c2e16e3401c9dfe198360f0cedc80c81a7d8fa53b54bea
\.
COPY routes.reserved_addr (id, account_id, created_at, description, metadata, addr, region, port) FROM stdin;
\.
COPY routes.reserved_domain (id, account_id, created_at, description, metadata, domain, region, certificate_id, certificate_management_policy, resolves_to, local_certificate_pem, local_key_sealed) FROM stdin;
rd_3MUxyOKBAL9ycOBWGFBSlvpVCvd	postern	2026-11-23 07:33:20.815158+00	the API	local	api.localhost		\N	\N	[]	-----BEGIN CERTIFICATE-----\nMIIByDCCAW+gAwIBAgIQVx8SjOU79uLM5qEzcPd4kDAKBggqhkjOPQQDAjAiMSAw\nHgYDVQQDDBdQb3N0ZXJuIGxvY2FsIGF1dGhvcml0eTAeFw0yNjExMjMwNjMzMjBa\nFw0yNzExMjMwNzMzMjBaMBgxFjAUBgNVBAMMDWFwaS5sb2NhbGhvc3QwWTATBgcq\nhkjOPQIBBggqhkjOPQMBBwNCAATnWwV9qk4v+ij9G3ARm8XR7IBRQ2ZlsP3EdrGn\nu7xsLQckjgFxyT2+5OO1QqasH+tPw2Pxw7wfadfI5A6kkg1uo4GQMIGNMAwGA1Ud\nEwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMBgG\nA1UdEQQRMA+CDWFwaS5sb2NhbGhvc3QwHQYDVR0OBBYEFIZJ27JnpBttIaVKDvdW\nfr1oPrqcMB8GA1UdIwQYMBaAFJEa74YoonceKTEEFpAQtL+eiPvTMAoGCCqGSM49\nBAMCA0cAMEQCIFXI2FJnTgwyc+fDRII957D1x9yf/omUev0MT1pSOPK7AiB0lKaV\nr0b7KK9IDkFLFgID6LsVXSFP8pZoVrJciCy0Pg==\n-----END CERTIFICATE-----\n	2wq6H0axGKlWQFynLCRGKGM+78oZ1HXqO36dcdYOgJmrRvx9YbdSSW4HDSuSJm4bz7/jhP3O87zPhvsL62vAgmohpWh6pEfYx42Eq/D2NCtIFj4Yx37W+cXkRYyyFLhD6nA7cWp1nJ2xr+n6KdiHc875YMqlOmWoPjdc52fFcEMBUn30gUggXZ/D4hjcxZhLfjW/yxXmQgE5OYHrJSc3rZ00cKR7HgR7ROi3QzxJIwNO0elKXwOojvInzbmgy5D6O1yyvxVASZUi7Fxvlf7cs/tfqXAi873OBmdO4ru6LtJNcmB7rNCnR/Erg2aTMVjTJ1d2FTjARLQBkdiqoUUKE44kOyfwuYUM/uG+uUgFO6Eml3XFXTt4ZUg=
rd_3MUxySyTr0vPesbMEQICOrO9fgW	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:21+00	demo		demo.localhost		\N	\N	\N	-----BEGIN CERTIFICATE-----\nMIIByjCCAXGgAwIBAgIQcZ8oQTdoWltHEEZHxgXFHzAKBggqhkjOPQQDAjAiMSAw\nHgYDVQQDDBdQb3N0ZXJuIGxvY2FsIGF1dGhvcml0eTAeFw0yNjExMjMwNjMzMjFa\nFw0yNzExMjMwNzMzMjFaMBkxFzAVBgNVBAMMDmRlbW8ubG9jYWxob3N0MFkwEwYH\nKoZIzj0CAQYIKoZIzj0DAQcDQgAEHyLezNBqWfw77I11/gw0fJrhVZQICsLX+s0k\naQ65SAbfc7vUEVAcSwGqtaJBv0Vu6foTEvzcgytJ7jT5iA7GlKOBkTCBjjAMBgNV\nHRMBAf8EAjAAMA4GA1UdDwEB/wQEAwIHgDATBgNVHSUEDDAKBggrBgEFBQcDATAZ\nBgNVHREEEjAQgg5kZW1vLmxvY2FsaG9zdDAdBgNVHQ4EFgQUE02/x9zemZ1cXCwp\nRt6HfFZr/XowHwYDVR0jBBgwFoAUkRrvhiiidx4pMQQWkBC0v56I+9MwCgYIKoZI\nzj0EAwIDRwAwRAIgMdlJMGsgzAd+CHRpNMeAg/i0H4IPrUHSHp+L15Sa19kCIBzd\nVRI2kGWkqPXLHbAzEmj8LSz5AU+RCZ9n21rYqMPU\n-----END CERTIFICATE-----\n	OphWFZgCNqrx59k0KJmnq3wDoMEasXHn9Oruqpowe7IEbFqD1PzcPz8CKxHDqXcdGu4KxOlQkLSJ25koRoxGpyNmF0tL6QgEQvY64lEHgFbPNLaNT5ZWZaT1j1TfgZcsUTdLfq9uFHCAkXoBBSRp63PIEFxJ+qK8y9bmENfvr8yWdIQ1lEsR/K10jTeV39bqRz8liY0NK5mbDZMQVNAT0Il/bWnSJMoA/nmVAcB7UbZny/osNl4JZznBf8620+AMrLumpjr2m94qqdR3YRPd9JyoGgJq96+PdbEOF/1Cy6GxL7nN5fa8g87ifa25VoSt0uF61BXq96kWpQVam03RaptDHrlAEICim+ok/sXlPVayUHFVrLydg7E=
rd_3MUzCxt4OdjsHP98ZQymuDglUh8	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:43:30+00			old.example.test		\N	\N	\N	-----BEGIN CERTIFICATE-----\nMIIBzzCCAXWgAwIBAgIQDK0ufVSG/ABWoZx4Pg4lOzAKBggqhkjOPQQDAjAiMSAw\nHgYDVQQDDBdQb3N0ZXJuIGxvY2FsIGF1dGhvcml0eTAeFw0yNjExMjMwNjQzMzBa\nFw0yNzExMjMwNzQzMzBaMBsxGTAXBgNVBAMMEG9sZC5leGFtcGxlLnRlc3QwWTAT\nBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQWpw5ghUG68HpGrIRPBNBSqProGpII456e\nV0oWsrFZya8+Sn3K2BEHVW56AiHRCox94YwpKHe6jqejPgBPwF48o4GTMIGQMAwG\nA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMB\nMBsGA1UdEQQUMBKCEG9sZC5leGFtcGxlLnRlc3QwHQYDVR0OBBYEFDL7iMvg/KAr\n0jGXper6KLKDswMYMB8GA1UdIwQYMBaAFJEa74YoonceKTEEFpAQtL+eiPvTMAoG\nCCqGSM49BAMCA0gAMEUCIQDI6ChXYHUMm+vXZxLUojFPva7QFEzKmVVEjKp+3Vgs\nWgIgATi40Ifww6Iz+2EJyihpSyTeznPy6vbgsXHI18euB4I=\n-----END CERTIFICATE-----\n	lrdHd4TAZVFOeaDjZjWn6oTxGgKsMLhnErGsgZJQr+T0uZRGzZk25LaeHfieTUDfb/k9wN8FhqhGqEdfVCFXR0b8nQQFu00U1p0NaVRG8FgmrKtDqYmhLx0UeDVUEwXF5oxuuoiyI9+Ax+MxwFwxqciwDAjQtn3VYhYfOmjcHIWnKz516VJAKOaGImtsKm0nHPkiXtq5dOh9xfh70gJQU8pGRl53+pgnDEexwWrU918fUBD+6g8/Oj0VPuKES35xO3IuMPkp6bUb8tpyu47EOQCfqmAK3voYlUo7r6iwXOQOU0RGfgvGaMxIM6s3LBhgmHEdHrz+0Nuy0EkUovJRpg6AgylT6w6XVSJalBYivuF2uA7h+x/7bGE=
\.
COPY routes.static_backend (id, account_id, created_at, description, metadata, address, tls) FROM stdin;
bkdsc_3MUxyY7olxNNjXjCKvYnPMxcDNo	ac_3MUxyRdsCA1flcPV90ozF6s9DiZ	2026-11-23 07:33:22+00	demo		127.0.0.1:20101	{"enabled": false}
\.
COPY routes.tcp_edge (id, account_id, created_at, description, metadata, hostports, backend, ip_restriction, traffic_policy) FROM stdin;
\.
COPY routes.tls_certificate (id, account_id, created_at, description, metadata, certificate_pem, private_key_pem, subject_common_name, subject_alternative_names, not_before, not_after, key_usages, extended_key_usages, private_key_type, issuer_common_name, serial_number, subject_organization, subject_organizational_unit, subject_locality, subject_province, subject_country) FROM stdin;
\.
COPY routes.tls_edge (id, account_id, created_at, description, metadata, hostports, backend, ip_restriction, mutual_tls, tls_termination, traffic_policy) FROM stdin;
\.
COPY routes.tunnel (id, account_id, public_url, started_at, metadata, proto, region, tunnel_session_id, endpoint_id, labels, backends, forwards_to) FROM stdin;
\.
COPY routes.tunnel_group_backend (id, account_id, created_at, description, metadata, labels) FROM stdin;
\.
COPY routes.tunnel_session (id, account_id, agent_version, credential_id, ip, metadata, os, region, started_at, transport) FROM stdin;
\.
COPY routes.weighted_backend (id, account_id, created_at, description, metadata, backends) FROM stdin;
\.
SELECT pg_catalog.setval('events.outbox_seq_seq', 1, true);
SELECT pg_catalog.setval('identity.outbox_seq_seq', 4, true);
SELECT pg_catalog.setval('routes.outbox_seq_seq', 10, true);
ALTER TABLE ONLY events.event_destination
    ADD CONSTRAINT event_destination_pkey PRIMARY KEY (id);
ALTER TABLE ONLY events.event_subscription
    ADD CONSTRAINT event_subscription_pkey PRIMARY KEY (id);
ALTER TABLE ONLY events.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (event_id);
ALTER TABLE ONLY events.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY events.object_count
    ADD CONSTRAINT object_count_pkey PRIMARY KEY (account_id, kind, shard);
ALTER TABLE ONLY events.object
    ADD CONSTRAINT object_pkey PRIMARY KEY (id);
ALTER TABLE ONLY events.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY events.producer
    ADD CONSTRAINT producer_pkey PRIMARY KEY (name);
ALTER TABLE ONLY events.ref
    ADD CONSTRAINT ref_pkey PRIMARY KEY (from_id, path, to_id);
ALTER TABLE ONLY events.request
    ADD CONSTRAINT request_pkey PRIMARY KEY (key);
ALTER TABLE ONLY identity.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.application_session
    ADD CONSTRAINT application_session_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.application_user
    ADD CONSTRAINT application_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.bot_user
    ADD CONSTRAINT bot_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.credential
    ADD CONSTRAINT credential_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY identity.object_count
    ADD CONSTRAINT object_count_pkey PRIMARY KEY (account_id, kind, shard);
ALTER TABLE ONLY identity.object
    ADD CONSTRAINT object_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY identity.owner
    ADD CONSTRAINT owner_account_id_email_key UNIQUE (account_id, email);
ALTER TABLE ONLY identity.owner
    ADD CONSTRAINT owner_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.ref
    ADD CONSTRAINT ref_pkey PRIMARY KEY (from_id, path, to_id);
ALTER TABLE ONLY identity.request
    ADD CONSTRAINT request_pkey PRIMARY KEY (key);
ALTER TABLE ONLY identity.secret
    ADD CONSTRAINT secret_name UNIQUE (vault_id, name);
ALTER TABLE ONLY identity.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.service_user
    ADD CONSTRAINT service_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.ssh_certificate_authority
    ADD CONSTRAINT ssh_certificate_authority_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.ssh_credential
    ADD CONSTRAINT ssh_credential_key UNIQUE (account_id, key_blob);
ALTER TABLE ONLY identity.ssh_credential
    ADD CONSTRAINT ssh_credential_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.ssh_host_certificate
    ADD CONSTRAINT ssh_host_certificate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.ssh_user_certificate
    ADD CONSTRAINT ssh_user_certificate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY identity.vault
    ADD CONSTRAINT vault_name UNIQUE (account_id, name);
ALTER TABLE ONLY identity.vault
    ADD CONSTRAINT vault_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.agent_ingress
    ADD CONSTRAINT agent_ingress_domain UNIQUE (domain);
ALTER TABLE ONLY routes.agent_ingress
    ADD CONSTRAINT agent_ingress_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.certificate_authority
    ADD CONSTRAINT certificate_authority_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.config_entry
    ADD CONSTRAINT config_entry_pkey PRIMARY KEY (kind, id);
ALTER TABLE ONLY routes.config_head
    ADD CONSTRAINT config_head_pkey PRIMARY KEY (one);
ALTER TABLE ONLY routes.endpoint
    ADD CONSTRAINT endpoint_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.failover_backend
    ADD CONSTRAINT failover_backend_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.http_response_backend
    ADD CONSTRAINT http_response_backend_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.https_edge
    ADD CONSTRAINT https_edge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.https_edge_route
    ADD CONSTRAINT https_edge_route_match UNIQUE (edge_id, match);
ALTER TABLE ONLY routes.https_edge_route
    ADD CONSTRAINT https_edge_route_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.ip_policy
    ADD CONSTRAINT ip_policy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.ip_policy_rule
    ADD CONSTRAINT ip_policy_rule_cidr UNIQUE (ip_policy_id, cidr);
ALTER TABLE ONLY routes.ip_policy_rule
    ADD CONSTRAINT ip_policy_rule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.ip_restriction
    ADD CONSTRAINT ip_restriction_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.ip_restriction
    ADD CONSTRAINT ip_restriction_type UNIQUE (account_id, type);
ALTER TABLE ONLY routes.local_authority
    ADD CONSTRAINT local_authority_pkey PRIMARY KEY (one);
ALTER TABLE ONLY routes.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY routes.name_claim
    ADD CONSTRAINT name_claim_pkey PRIMARY KEY (name, owner_id);
ALTER TABLE ONLY routes.object_count
    ADD CONSTRAINT object_count_pkey PRIMARY KEY (account_id, kind, shard);
ALTER TABLE ONLY routes.object
    ADD CONSTRAINT object_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (seq);
ALTER TABLE ONLY routes.ref
    ADD CONSTRAINT ref_pkey PRIMARY KEY (from_id, path, to_id);
ALTER TABLE ONLY routes.request
    ADD CONSTRAINT request_pkey PRIMARY KEY (key);
ALTER TABLE ONLY routes.reserved_addr
    ADD CONSTRAINT reserved_addr_addr_key UNIQUE (addr);
ALTER TABLE ONLY routes.reserved_addr
    ADD CONSTRAINT reserved_addr_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.reserved_addr
    ADD CONSTRAINT reserved_addr_port_key UNIQUE (port);
ALTER TABLE ONLY routes.reserved_domain
    ADD CONSTRAINT reserved_domain_name UNIQUE (domain);
ALTER TABLE ONLY routes.reserved_domain
    ADD CONSTRAINT reserved_domain_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.static_backend
    ADD CONSTRAINT static_backend_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tcp_edge
    ADD CONSTRAINT tcp_edge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tls_certificate
    ADD CONSTRAINT tls_certificate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tls_edge
    ADD CONSTRAINT tls_edge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tunnel_group_backend
    ADD CONSTRAINT tunnel_group_backend_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tunnel
    ADD CONSTRAINT tunnel_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.tunnel_session
    ADD CONSTRAINT tunnel_session_pkey PRIMARY KEY (id);
ALTER TABLE ONLY routes.weighted_backend
    ADD CONSTRAINT weighted_backend_pkey PRIMARY KEY (id);
CREATE INDEX event_destination_account ON events.event_destination USING btree (account_id, id);
CREATE INDEX event_subscription_account ON events.event_subscription USING btree (account_id, id);
CREATE INDEX log_account ON events.log USING btree (account_id, event_id);
CREATE INDEX object_parent ON events.object USING btree (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX ref_to_id ON events.ref USING btree (to_id);
CREATE INDEX request_at ON events.request USING btree (at);
CREATE INDEX api_key_account ON identity.api_key USING btree (account_id, id);
CREATE INDEX api_key_owner ON identity.api_key USING btree (owner_id);
CREATE INDEX application_session_account ON identity.application_session USING btree (account_id, id);
CREATE INDEX application_user_account ON identity.application_user USING btree (account_id, id);
CREATE INDEX bot_user_account ON identity.bot_user USING btree (account_id, id);
CREATE INDEX credential_account ON identity.credential USING btree (account_id, id);
CREATE INDEX credential_owner ON identity.credential USING btree (owner_id);
CREATE INDEX object_parent ON identity.object USING btree (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX owner_object ON identity.owner USING btree (object_id) WHERE (object_id IS NOT NULL);
CREATE INDEX ref_to_id ON identity.ref USING btree (to_id);
CREATE INDEX request_at ON identity.request USING btree (at);
CREATE INDEX secret_account ON identity.secret USING btree (account_id, id);
CREATE INDEX secret_vault ON identity.secret USING btree (vault_id, id);
CREATE INDEX service_user_account ON identity.service_user USING btree (account_id, id);
CREATE INDEX ssh_certificate_authority_account ON identity.ssh_certificate_authority USING btree (account_id, id);
CREATE INDEX ssh_credential_account ON identity.ssh_credential USING btree (account_id, id);
CREATE INDEX ssh_credential_owner ON identity.ssh_credential USING btree (owner_id);
CREATE INDEX ssh_host_certificate_account ON identity.ssh_host_certificate USING btree (account_id, id);
CREATE INDEX ssh_user_certificate_account ON identity.ssh_user_certificate USING btree (account_id, id);
CREATE INDEX vault_account ON identity.vault USING btree (account_id, id);
CREATE INDEX agent_ingress_account ON routes.agent_ingress USING btree (account_id, id);
CREATE INDEX certificate_authority_account ON routes.certificate_authority USING btree (account_id, id);
CREATE INDEX config_entry_revision ON routes.config_entry USING btree (revision);
CREATE INDEX endpoint_account ON routes.endpoint USING btree (account_id, id);
CREATE INDEX endpoint_edge ON routes.endpoint USING btree (edge_id);
CREATE UNIQUE INDEX endpoint_hostport ON routes.endpoint USING btree (hostport, (
CASE binding
    WHEN 'internal'::text THEN account_id
    ELSE ''::text
END)) WHERE (NOT pooling_enabled);
CREATE UNIQUE INDEX endpoint_object ON routes.endpoint USING btree (object_id) WHERE (object_id IS NOT NULL);
CREATE INDEX endpoint_of_hostport ON routes.endpoint USING btree (hostport);
CREATE INDEX failover_backend_account ON routes.failover_backend USING btree (account_id, id);
CREATE INDEX http_response_backend_account ON routes.http_response_backend USING btree (account_id, id);
CREATE INDEX https_edge_account ON routes.https_edge USING btree (account_id, id);
CREATE INDEX https_edge_route_edge ON routes.https_edge_route USING btree (edge_id, id);
CREATE UNIQUE INDEX https_edge_route_place ON routes.https_edge_route USING btree (edge_id, place);
CREATE INDEX ip_policy_account ON routes.ip_policy USING btree (account_id, id);
CREATE INDEX ip_policy_rule_account ON routes.ip_policy_rule USING btree (account_id, id);
CREATE INDEX ip_restriction_account ON routes.ip_restriction USING btree (account_id, id);
CREATE INDEX name_claim_below ON routes.name_claim USING btree (reverse(name));
CREATE INDEX name_claim_owner ON routes.name_claim USING btree (owner_id);
CREATE INDEX object_parent ON routes.object USING btree (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX ref_to_id ON routes.ref USING btree (to_id);
CREATE INDEX request_at ON routes.request USING btree (at);
CREATE INDEX reserved_addr_account ON routes.reserved_addr USING btree (account_id, id);
CREATE INDEX reserved_domain_account ON routes.reserved_domain USING btree (account_id, id);
CREATE INDEX static_backend_account ON routes.static_backend USING btree (account_id, id);
CREATE INDEX tcp_edge_account ON routes.tcp_edge USING btree (account_id, id);
CREATE INDEX tls_certificate_account ON routes.tls_certificate USING btree (account_id, id);
CREATE INDEX tls_edge_account ON routes.tls_edge USING btree (account_id, id);
CREATE INDEX tunnel_account ON routes.tunnel USING btree (account_id, id);
CREATE INDEX tunnel_group_backend_account ON routes.tunnel_group_backend USING btree (account_id, id);
CREATE INDEX tunnel_of_session ON routes.tunnel USING btree (tunnel_session_id);
CREATE INDEX tunnel_session_account ON routes.tunnel_session USING btree (account_id, id);
CREATE INDEX tunnel_url ON routes.tunnel USING btree (public_url) WHERE (public_url <> ''::text);
CREATE INDEX weighted_backend_account ON routes.weighted_backend USING btree (account_id, id);
CREATE TRIGGER count_object AFTER INSERT OR DELETE ON events.object FOR EACH ROW EXECUTE FUNCTION events.count_object();
CREATE TRIGGER count_object AFTER INSERT OR DELETE ON identity.object FOR EACH ROW EXECUTE FUNCTION identity.count_object();
CREATE TRIGGER count_object AFTER INSERT OR DELETE ON routes.object FOR EACH ROW EXECUTE FUNCTION routes.count_object();
CREATE TRIGGER place_https_edge_route BEFORE INSERT OR UPDATE ON routes.https_edge_route FOR EACH ROW EXECUTE FUNCTION routes.place_https_edge_route();
ALTER TABLE ONLY events.event_destination
    ADD CONSTRAINT event_destination_id_fkey FOREIGN KEY (id) REFERENCES events.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY events.event_subscription
    ADD CONSTRAINT event_subscription_id_fkey FOREIGN KEY (id) REFERENCES events.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY events.object
    ADD CONSTRAINT object_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES events.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY events.ref
    ADD CONSTRAINT ref_from_id_fkey FOREIGN KEY (from_id) REFERENCES events.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY events.ref
    ADD CONSTRAINT ref_to FOREIGN KEY (to_id) REFERENCES events.object(id) ON DELETE RESTRICT;
ALTER TABLE ONLY identity.api_key
    ADD CONSTRAINT api_key_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.api_key
    ADD CONSTRAINT api_key_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.api_key
    ADD CONSTRAINT api_key_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES identity.owner(id);
ALTER TABLE ONLY identity.application_session
    ADD CONSTRAINT application_session_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.application_session
    ADD CONSTRAINT application_session_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.application_user
    ADD CONSTRAINT application_user_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.application_user
    ADD CONSTRAINT application_user_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.bot_user
    ADD CONSTRAINT bot_user_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.bot_user
    ADD CONSTRAINT bot_user_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.credential
    ADD CONSTRAINT credential_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.credential
    ADD CONSTRAINT credential_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.credential
    ADD CONSTRAINT credential_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES identity.owner(id);
ALTER TABLE ONLY identity.object
    ADD CONSTRAINT object_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.owner
    ADD CONSTRAINT owner_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.owner
    ADD CONSTRAINT owner_object_id_fkey FOREIGN KEY (object_id) REFERENCES identity.object(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY identity.ref
    ADD CONSTRAINT ref_from_id_fkey FOREIGN KEY (from_id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.ref
    ADD CONSTRAINT ref_to FOREIGN KEY (to_id) REFERENCES identity.object(id) ON DELETE RESTRICT;
ALTER TABLE ONLY identity.secret
    ADD CONSTRAINT secret_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.secret
    ADD CONSTRAINT secret_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.service_user
    ADD CONSTRAINT service_user_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.service_user
    ADD CONSTRAINT service_user_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.ssh_certificate_authority
    ADD CONSTRAINT ssh_certificate_authority_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.ssh_certificate_authority
    ADD CONSTRAINT ssh_certificate_authority_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.ssh_credential
    ADD CONSTRAINT ssh_credential_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.ssh_credential
    ADD CONSTRAINT ssh_credential_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.ssh_credential
    ADD CONSTRAINT ssh_credential_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES identity.owner(id);
ALTER TABLE ONLY identity.ssh_host_certificate
    ADD CONSTRAINT ssh_host_certificate_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.ssh_host_certificate
    ADD CONSTRAINT ssh_host_certificate_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.ssh_user_certificate
    ADD CONSTRAINT ssh_user_certificate_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.ssh_user_certificate
    ADD CONSTRAINT ssh_user_certificate_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY identity.vault
    ADD CONSTRAINT vault_account_id_fkey FOREIGN KEY (account_id) REFERENCES identity.account(id);
ALTER TABLE ONLY identity.vault
    ADD CONSTRAINT vault_id_fkey FOREIGN KEY (id) REFERENCES identity.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.agent_ingress
    ADD CONSTRAINT agent_ingress_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.certificate_authority
    ADD CONSTRAINT certificate_authority_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.endpoint
    ADD CONSTRAINT endpoint_edge_id_fkey FOREIGN KEY (edge_id) REFERENCES routes.object(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY routes.endpoint
    ADD CONSTRAINT endpoint_object_id_fkey FOREIGN KEY (object_id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.failover_backend
    ADD CONSTRAINT failover_backend_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.http_response_backend
    ADD CONSTRAINT http_response_backend_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.https_edge
    ADD CONSTRAINT https_edge_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.https_edge_route
    ADD CONSTRAINT https_edge_route_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.ip_policy
    ADD CONSTRAINT ip_policy_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.ip_policy_rule
    ADD CONSTRAINT ip_policy_rule_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.ip_restriction
    ADD CONSTRAINT ip_restriction_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.name_claim
    ADD CONSTRAINT name_claim_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES routes.object(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY routes.object
    ADD CONSTRAINT object_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.ref
    ADD CONSTRAINT ref_from_id_fkey FOREIGN KEY (from_id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.ref
    ADD CONSTRAINT ref_to FOREIGN KEY (to_id) REFERENCES routes.object(id) ON DELETE RESTRICT;
ALTER TABLE ONLY routes.reserved_addr
    ADD CONSTRAINT reserved_addr_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.reserved_domain
    ADD CONSTRAINT reserved_domain_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.static_backend
    ADD CONSTRAINT static_backend_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.tcp_edge
    ADD CONSTRAINT tcp_edge_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.tls_certificate
    ADD CONSTRAINT tls_certificate_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.tls_edge
    ADD CONSTRAINT tls_edge_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.tunnel_group_backend
    ADD CONSTRAINT tunnel_group_backend_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.tunnel
    ADD CONSTRAINT tunnel_tunnel_session_id_fkey FOREIGN KEY (tunnel_session_id) REFERENCES routes.tunnel_session(id) ON DELETE CASCADE;
ALTER TABLE ONLY routes.weighted_backend
    ADD CONSTRAINT weighted_backend_id_fkey FOREIGN KEY (id) REFERENCES routes.object(id) ON DELETE CASCADE;
