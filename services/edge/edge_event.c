/* http_request_complete.v0, packed once as msgpack in the log phase; nobody looks into it again on
 * its way to subscribers. Fields of modules that did not run say "invalid". */
#include "edge.h"
#include "common/id.h"

#include <msgpack.h>

enum { EVENT_MAX = 58000, HEADERS_MAX = 100, VALUE_MAX = 8192 };

static const char  topic[] = "http_request_complete.v0";

typedef struct {
    size_t      len;
    ngx_uint_t  full;
    u_char      bytes[EVENT_MAX];
} buffer_t;

static buffer_t  buffer;   /* a worker packs one event at a time */


static int
append(void *data, const char *bytes, size_t len)
{
    buffer_t  *out = data;

    if (len > sizeof(out->bytes) - out->len) {
        out->full = 1;
        return -1;
    }
    ngx_memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
    return 0;
}


static void
put(msgpack_packer *pk, const void *data, size_t len)
{
    len = ngx_min(len, VALUE_MAX);
    msgpack_pack_str(pk, len);
    msgpack_pack_str_body(pk, data, len);
}

#define KEY(name)  put(pk, name, sizeof(name) - 1)
#define TEXT(name, value, n)  do { KEY(name); put(pk, value, n); } while (0)
#define WORD(name, value)  do { KEY(name); KEY(value); } while (0)
#define NUMBER(name, value)  do { KEY(name); msgpack_pack_int64(pk, value); } while (0)
#define MAP(name, n)  do { KEY(name); msgpack_pack_map(pk, n); } while (0)


/* Bytes that are not UTF-8 become '?': every string of an event is text. Valid text goes as it is. */
static void
put_text(msgpack_packer *pk, u_char *data, size_t len)
{
    u_char   clean[VALUE_MAX], *p, *end, *q = clean;
    size_t   n = ngx_min(len, VALUE_MAX);

    for (p = data, end = data + n; p < end && *p < 0x80; p++) { /* void */ }
    if (p == end) {
        put(pk, data, n);
        return;
    }
    for (p = data; p < end; /* void */) {
        u_char   *at = p;
        uint32_t  c = *p < 0x80 ? *p++ : ngx_utf8_decode(&p, end - p);

        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            *q++ = '?';
            p = at + 1;
        } else {
            q = ngx_cpymem(q, at, p - at);
        }
    }
    put(pk, clean, q - clean);
}


static void
put_time(msgpack_packer *pk, time_t sec, ngx_msec_t msec)
{
    u_char    text[40];
    ngx_tm_t  tm;

    ngx_gmtime(sec, &tm);
    put(pk, text, ngx_sprintf(text, "%4d-%02d-%02dT%02d:%02d:%02d.%03MZ",
                              tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                              tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec,
                              msec) - text);
}


/* ---- headers: name -> list of values, names capitalised, values lower-cased ---- */

typedef struct {
    ngx_str_t  name, value;
} pair_t;

static pair_t  pairs[HEADERS_MAX];


static ngx_uint_t
same(const ngx_str_t *a, const ngx_str_t *b)
{
    return a->len == b->len
           && ngx_strncasecmp(a->data, b->data, a->len) == 0;
}


/* Credentials never leave the edge in an event. */
static ngx_uint_t
secret(const ngx_str_t *name)
{
    static ngx_str_t  names[] = {
        ngx_string("authorization"), ngx_string("proxy-authorization"),
        ngx_string("cookie"), ngx_string("set-cookie"),
        ngx_string("x-api-key")
    };
    ngx_uint_t  i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (same(name, &names[i])) {
            return 1;
        }
    }
    return 0;
}


static void
put_name(msgpack_packer *pk, const ngx_str_t *name)
{
    u_char  out[256];
    size_t  i, n = ngx_min(name->len, sizeof(out));

    for (i = 0; i < n; i++) {
        out[i] = i == 0 || name->data[i - 1] == '-' ? ngx_toupper(name->data[i])
                                                    : ngx_tolower(name->data[i]);
    }
    put_text(pk, out, n);
}


static void
put_value(msgpack_packer *pk, const pair_t *pair)
{
    u_char  out[VALUE_MAX];
    size_t  n = ngx_min(pair->value.len, sizeof(out));

    if (secret(&pair->name)) {
        put(pk, "[redacted]", 10);
        return;
    }
    ngx_strlow(out, pair->value.data, n);
    put_text(pk, out, n);
}


static void
put_pairs(msgpack_packer *pk, ngx_uint_t n)
{
    ngx_uint_t  i, k, names = 0, count;
    u_char      seen[HEADERS_MAX];

    ngx_memzero(seen, n);
    for (i = 0; i < n; i++) {
        for (k = 0; k < i && !same(&pairs[i].name, &pairs[k].name); k++) { /* void */ }
        if (k < i) {
            seen[i] = 1;
        } else {
            names++;
        }
    }
    msgpack_pack_map(pk, names);
    for (i = 0; i < n; i++) {
        if (seen[i]) {
            continue;
        }
        count = 1;
        for (k = i + 1; k < n; k++) {
            count += same(&pairs[i].name, &pairs[k].name);
        }
        put_name(pk, &pairs[i].name);
        msgpack_pack_array(pk, count);
        for (k = i; k < n; k++) {
            if (k == i || (seen[k] && same(&pairs[i].name, &pairs[k].name))) {
                put_value(pk, &pairs[k]);
            }
        }
    }
}


static ngx_uint_t
collect_request(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t        i, n = 0;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts && n < HEADERS_MAX; i++) {
            if (part == ctx->own_part && i >= ctx->own_index) {
                goto hidden;   /* from here on they are ours */
            }
            if (!edge_header_hidden(&header[i])) {
                pairs[n].name = header[i].key;
                pairs[n++].value = header[i].value;
            }
        }
        if (part == ctx->own_part) {
            break;
        }
    }

hidden:

    header = ctx->hidden ? ctx->hidden->elts : NULL;
    for (i = 0; header && i < ctx->hidden->nelts && n < HEADERS_MAX; i++) {
        pairs[n].name = header[i].key;
        pairs[n++].value = header[i].value;
    }
    return n;
}


static ngx_uint_t
collect_response(ngx_http_request_t *r)
{
    ngx_uint_t        i, n = 0;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    if (r->headers_out.content_type.len) {
        ngx_str_set(&pairs[n].name, "content-type");
        pairs[n++].value = r->headers_out.content_type;
    }
    for (part = &r->headers_out.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts && n < HEADERS_MAX; i++) {
            if (header[i].hash) {
                pairs[n].name = header[i].key;
                pairs[n++].value = header[i].value;
            }
        }
    }
    return n;
}


/* ---- the object ---- */

static void
put_conn(msgpack_packer *pk, ngx_http_request_t *r)
{
    ngx_str_t          server;
    u_char             text[NGX_SOCKADDR_STRLEN];
    ngx_connection_t  *c = r->connection;
    const char        *sni = NULL;
    uint64_t           age;
    ngx_time_t        *now = ngx_timeofday();

    server.data = text;
    server.len = sizeof(text);
    if (ngx_connection_local_sockaddr(c, &server, 0) != NGX_OK) {
        server.len = 0;
    }
    if (c->ssl) {
        sni = SSL_get_servername(c->ssl->connection, TLSEXT_NAMETYPE_host_name);
    }
    MAP("conn", 5);
    TEXT("client_ip", c->addr_text.data, c->addr_text.len);
    TEXT("server_ip", server.data, server.len);
    KEY("server_name");
    put_text(pk, (u_char *) (sni ? sni : ""), sni ? ngx_strlen(sni) : 0);
    NUMBER("server_port", ngx_inet_get_port(c->local_sockaddr));
    KEY("start_ts");
    age = ngx_current_msec - c->start_time;
    age = (uint64_t) now->sec * 1000 + now->msec - age;
    put_time(pk, age / 1000, age % 1000);
}


static void
put_method(msgpack_packer *pk, ngx_http_request_t *r)
{
    u_char  out[32];
    size_t  n = ngx_min(r->method_name.len, sizeof(out));

    ngx_strlow(out, r->method_name.data, n);
    put_text(pk, out, n);
}


static void
put_url(msgpack_packer *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char     raw[VALUE_MAX], *last;
    ngx_str_t  path = ctx->path.len ? ctx->path : r->unparsed_uri;
    ngx_str_t  host = r->headers_in.host ? r->headers_in.host->value : ctx->host;

    last = ngx_snprintf(raw, sizeof(raw), "https://%V%V", &host,
                        &r->unparsed_uri);
    MAP("url", 5);
    KEY("host");
    put_text(pk, host.data, host.len);
    KEY("path");
    put_text(pk, path.data, path.len);
    KEY("query");
    put_text(pk, r->args.data, r->args.len);
    KEY("raw");
    put_text(pk, raw, last - raw);
    WORD("scheme", "https");
}


static void
put_http(msgpack_packer *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    ngx_table_elt_t  *agent = r->headers_in.user_agent;
    off_t             body = r->headers_in.content_length_n;
    off_t             sent = r->connection->sent - r->header_size;

    if (r->headers_in.chunked && r->request_body) {
        body = r->request_body->received;
    }
#if (NGX_HTTP_V2)
    if (r->stream) {
        sent = r->headers_out.content_length_n;
    }
#endif
    MAP("http", 2);
    MAP("request", 5);
    NUMBER("body_length", body > 0 ? body : 0);
    KEY("headers");
    put_pairs(pk, with_headers ? collect_request(r, ctx) : 0);
    KEY("method");
    put_method(pk, r);
    put_url(pk, r, ctx);
    KEY("user_agent");
    put_text(pk, agent ? agent->value.data : (u_char *) "",
             agent ? agent->value.len : 0);
    MAP("response", 3);
    NUMBER("body_length", sent > 0 && r->method != NGX_HTTP_HEAD ? sent : 0);
    KEY("headers");
    put_pairs(pk, with_headers ? collect_response(r) : 0);
    NUMBER("status_code", (int64_t) (r->err_status ? r->err_status
                                                   : r->headers_out.status));
}


static void
put_tls(msgpack_packer *pk, ngx_http_request_t *r)
{
    const char  *cipher = "", *version = "";

    if (r->connection->ssl) {
        cipher = SSL_get_cipher_name(r->connection->ssl->connection);
        version = SSL_get_version(r->connection->ssl->connection);
    }
    MAP("tls", 3);
    TEXT("cipher_suite", cipher, ngx_strlen(cipher));
    MAP("client_cert", 2);
    WORD("serial_number", "");
    MAP("subject", 1);
    WORD("cn", "");
    TEXT("version", version, ngx_strlen(version));
}


/* A module that denied the request says "block"; the others did not run. */
static void
put_decision(msgpack_packer *pk, edge_ctx_t *ctx, int module)
{
    if (ctx->blocked_by == module) {
        WORD("decision", "block");
    } else {
        WORD("decision", "invalid");
    }
}


static void
put_object(msgpack_packer *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    int         sign_in = ctx->blocked_by == MODULE_OIDC
                          || ctx->blocked_by == MODULE_SAML ? ctx->blocked_by
                                                            : MODULE_OAUTH;
    ngx_uint_t  reused = r->upstream && r->upstream->peer.cached;

    msgpack_pack_map(pk, 11);
    MAP("backend", 1);
    KEY("connection_reused");
    reused ? msgpack_pack_true(pk) : msgpack_pack_false(pk);
    MAP("basic_auth", 2);
    WORD("decision", "invalid");
    WORD("username", "");
    MAP("circuit_breaker", 1);
    put_decision(pk, ctx, MODULE_CIRCUIT_BREAKER);
    MAP("compression", 2);
    WORD("algorithm", "none");
    NUMBER("bytes_saved", 0);
    put_conn(pk, r);
    put_http(pk, r, ctx, with_headers);
    MAP("ip_policy", 1);
    put_decision(pk, ctx, MODULE_IP_RESTRICTION);
    MAP("oauth", 3);
    WORD("app_client_id", "");
    put_decision(pk, ctx, sign_in);
    MAP("user", 2);
    WORD("id", "");
    WORD("name", "");
    put_tls(pk, r);
    MAP("traffic_policy", 1);
    KEY("logs");
    msgpack_pack_array(pk, 0);
    MAP("webhook_verification", 1);
    put_decision(pk, ctx, MODULE_WEBHOOK_VERIFICATION);
}


/* The next id: a new KSUID each second, and its successors as base62 numbers within the second. The
 * base's 96 random bits keep workers apart; nothing relies on an event id being secret. */
static const char *
next_id(void)
{
    static char    id[ID_MAX];
    static time_t  second;
    char          *digit;

    if (second != ngx_time()) {
        second = ngx_time();
        id_make("ev", id);
        return id;
    }
    for (digit = id + ngx_strlen(id) - 1; *digit == 'z'; digit--) {
        *digit = '0';
    }
    *digit = *digit == '9' ? 'A' : *digit == 'Z' ? 'a' : *digit + 1;
    return id;
}


static ngx_uint_t
pack_event(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t with_headers)
{
    const char      *id = next_id();
    size_t           body, start = 5 + sizeof(topic) - 1;
    ngx_time_t      *now = ngx_timeofday();
    msgpack_packer   packer, *pk = &packer;

    buffer.full = 0;
    buffer.len = start;
    msgpack_packer_init(pk, &buffer, append);
    msgpack_pack_map(pk, 6);
    TEXT("event_id", id, ngx_strlen(id));
    TEXT("event_type", topic, sizeof(topic) - 1);
    KEY("event_timestamp");
    put_time(pk, now->sec, now->msec);
    TEXT("account_id", ctx->account_id.data, ctx->account_id.len);
    KEY("principal");
    msgpack_pack_nil(pk);
    KEY("object");
    put_object(pk, r, ctx, with_headers);

    body = buffer.len - start;
    buffer.bytes[0] = sizeof(topic) - 1;
    buffer.bytes[1] = (u_char) (body >> 24);
    buffer.bytes[2] = (u_char) (body >> 16);
    buffer.bytes[3] = (u_char) (body >> 8);
    buffer.bytes[4] = (u_char) body;
    ngx_memcpy(buffer.bytes + 5, topic, sizeof(topic) - 1);
    return !buffer.full;
}


void
edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (!edge_worker.events_wanted || !edge_worker.running) {
        return;
    }
    /* headers of 60 KB do not fit: the event goes without them rather than not at all */
    if (!pack_event(r, ctx, 1)) {
        pack_event(r, ctx, 0);
    }
    edge_ring_put(buffer.bytes, buffer.len);
    edge_bus_send_events();
}
