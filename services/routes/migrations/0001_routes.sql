CREATE TABLE https_edge (
    id              text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id      text NOT NULL,
    created_at      timestamptz NOT NULL,
    description     text NOT NULL,
    metadata        text NOT NULL,
    hostports       jsonb NOT NULL,
    mutual_tls      jsonb,
    tls_termination jsonb
);
CREATE INDEX https_edge_account ON https_edge (account_id, id);

-- One edge per hostport, on the whole server.
CREATE TABLE https_edge_hostport (
    hostport text CONSTRAINT https_edge_hostport_key PRIMARY KEY,
    edge_id  text NOT NULL REFERENCES object ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX https_edge_hostport_edge ON https_edge_hostport (edge_id);

CREATE TABLE https_edge_route (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    edge_id     text NOT NULL,
    match_type  text NOT NULL,
    match       text NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    backend jsonb, ip_restriction jsonb, circuit_breaker jsonb, compression jsonb,
    request_headers jsonb, response_headers jsonb, webhook_verification jsonb, oauth jsonb,
    saml jsonb, oidc jsonb, websocket_tcp_converter jsonb, user_agent_filter jsonb,
    traffic_policy jsonb,
    CONSTRAINT https_edge_route_match UNIQUE (edge_id, match)
);
CREATE INDEX https_edge_route_edge ON https_edge_route (edge_id, id);

CREATE TABLE static_backend (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    address     text NOT NULL,
    tls         jsonb NOT NULL
);
CREATE INDEX static_backend_account ON static_backend (account_id, id);

CREATE TABLE http_response_backend (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    body        text NOT NULL,
    headers     jsonb NOT NULL,
    status_code int NOT NULL
);
CREATE INDEX http_response_backend_account ON http_response_backend (account_id, id);

CREATE TABLE reserved_domain (
    id             text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id     text NOT NULL,
    created_at     timestamptz NOT NULL,
    description    text NOT NULL,
    metadata       text NOT NULL,
    domain         text NOT NULL CONSTRAINT reserved_domain_name UNIQUE,
    region         text NOT NULL,
    certificate_id text,
    certificate_management_policy jsonb,
    resolves_to    jsonb NOT NULL,
    -- of the local authority, for a domain without certificate_id; the key is sealed
    local_certificate_pem text,
    local_key_sealed      text
);
CREATE INDEX reserved_domain_account ON reserved_domain (account_id, id);

CREATE TABLE tls_certificate (
    id          text PRIMARY KEY COLLATE "C" REFERENCES object ON DELETE CASCADE,
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    description text NOT NULL,
    metadata    text NOT NULL,
    certificate_pem text NOT NULL,
    private_key_pem text NOT NULL, -- sealed
    subject_common_name text NOT NULL,
    subject_alternative_names jsonb NOT NULL,
    not_before  timestamptz NOT NULL,
    not_after   timestamptz NOT NULL,
    key_usages  jsonb NOT NULL,
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
CREATE INDEX tls_certificate_account ON tls_certificate (account_id, id);

-- The local authority: signs certificates for reserved domains that have none. Its key is sealed.
CREATE TABLE local_authority (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    certificate_pem text NOT NULL,
    key_sealed      text NOT NULL
);
