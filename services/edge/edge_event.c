/* http_request_complete.v0, packed once as msgpack in the log phase; nobody looks into it again on
 * its way to subscribers. Fields of modules that did not run say "invalid". */
#include "edge.h"
#include "edge_pack.h"
#include "edge_text.h"
#include "common/id.h"

enum { EVENT_MAX = 58000, HEADERS_MAX = 100, VALUE_MAX = 8192, NAME_MAX_BYTES = 256,
       FIXED_MAX = 1536 /* what every event has: keys, words, numbers, times */ };

static const char  topic[] = "http_request_complete.v0";


static inline void
put(pack_t *pk, const void *data, size_t len)
{
    pack_str(pk, data, ngx_min(len, VALUE_MAX));
}

/* The fixed part is in the room that pack_event sets aside for it. */
#define TEXT(name, value, n)  do { PACK_KEY(name); put(pk, value, n); } while (0)
#define NUMBER(name, value)  do { PACK_KEY(name); pack_int64(pk, value); } while (0)


/* Bytes that are not UTF-8 become '?': every string of an event is text. */
static void
put_cleaned(pack_t *pk, u_char *data, size_t len)
{
    u_char  clean[VALUE_MAX], *p = data, *end = data + len, *q = clean;

    while (p < end) {
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
put_text(pack_t *pk, u_char *data, size_t len)
{
    len = ngx_min(len, VALUE_MAX);
    if (text_is_ascii(data, len)) {
        put(pk, data, len);
    } else {
        put_cleaned(pk, data, len);
    }
}


typedef bool (*letters_t)(u_char *out, const u_char *data, size_t len);


/* Straight into the event; what is not ASCII is packed again. */
static inline void
put_letters(pack_t *pk, u_char *data, size_t len, letters_t letters)
{
    u_char  out[VALUE_MAX], *start = pk->at;

    len = ngx_min(len, VALUE_MAX);
    pack_str_head(pk, len);
    if ((ptrdiff_t) len > pk->end - pk->at) {
        pk->full = true;
        return;
    }
    if (letters(pk->at, data, len)) {
        pk->at += len;
        return;
    }
    pk->at = start;
    (void) letters(out, data, len);
    put_cleaned(pk, out, len);
}


static void
put_lower(pack_t *pk, u_char *data, size_t len)
{
    put_letters(pk, data, len, text_lower);
}


static u_char *
digits(u_char *out, ngx_uint_t value, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = n; i > 0; i--) {
        out[i - 1] = '0' + value % 10;
        value /= 10;
    }
    return out + n;
}


/* The text of a second is kept until another one is asked for. */
typedef struct {
    time_t  second;
    u_char  text[sizeof("0000-00-00T00:00:00.000Z")];
} second_t;

static second_t  now_second = { -1, "0000-00-00T00:00:00.000Z" };
static second_t  start_second = { -1, "0000-00-00T00:00:00.000Z" };


/* RFC 3339 with milliseconds. */
static void
put_time(pack_t *pk, second_t *kept, time_t sec, ngx_msec_t msec)
{
    u_char    *text = kept->text;
    ngx_tm_t   tm;

    if (sec != kept->second) {
        kept->second = sec;
        ngx_gmtime(sec, &tm);
        digits(text, tm.ngx_tm_year, 4);
        digits(text + 5, tm.ngx_tm_mon, 2);
        digits(text + 8, tm.ngx_tm_mday, 2);
        digits(text + 11, tm.ngx_tm_hour, 2);
        digits(text + 14, tm.ngx_tm_min, 2);
        digits(text + 17, tm.ngx_tm_sec, 2);
    }
    digits(text + 20, msec, 3);
    pack_fixed_byte(pk, 0xa0 | (sizeof(kept->text) - 1));
    pack_fixed(pk, text, sizeof(kept->text) - 1);
}


/* ---- headers: name -> list of values, names capitalised, values lower-cased ---- */

typedef struct {
    ngx_str_t  name, value;
} pair_t;

static pair_t  pairs[HEADERS_MAX];


/* Header names seldom agree in length and last letter without being the same. */
static inline ngx_uint_t
same(const ngx_str_t *a, const ngx_str_t *b)
{
    return a->len == b->len && a->len > 0
           && ((a->data[a->len - 1] ^ b->data[b->len - 1]) & 0x1f) == 0
           && ngx_strncasecmp(a->data, b->data, a->len) == 0;
}


/* Credentials never leave the edge in an event. Most names have another length than all of these. */
static ngx_uint_t
secret(const ngx_str_t *name)
{
#define NAME(text)  { sizeof(text) - 1, (u_char *) text }
    static const ngx_str_t  names[] = {
        NAME("authorization"), NAME("proxy-authorization"), NAME("cookie"),
        NAME("set-cookie"), NAME("x-api-key")
    };
#undef NAME
    ngx_uint_t              i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (name->len == names[i].len && same(name, &names[i])) {
            return 1;
        }
    }
    return 0;
}


static void
put_name(pack_t *pk, const ngx_str_t *name)
{
    put_letters(pk, name->data, ngx_min(name->len, NAME_MAX_BYTES), text_capitalize);
}


static void
put_value(pack_t *pk, const pair_t *pair)
{
    if (secret(&pair->name)) {
        put(pk, "[redacted]", 10);
        return;
    }
    put_lower(pk, pair->value.data, pair->value.len);
}


static void
put_pairs(pack_t *pk, ngx_uint_t n)
{
    u_char      first[HEADERS_MAX], count[HEADERS_MAX];   /* of the same name */
    ngx_uint_t  i, k, names = 0;

    for (i = 0; i < n; i++) {
        for (k = 0; k < i && !same(&pairs[i].name, &pairs[k].name); k++) { /* void */ }
        first[i] = k;
        count[i] = 0;
        count[k]++;
        names += k == i;
    }
    pack_map(pk, names);
    for (i = 0; i < n; i++) {
        if (first[i] != i) {
            continue;
        }
        put_name(pk, &pairs[i].name);
        pack_array(pk, count[i]);
        for (k = i; count[i]; k++) {
            if (first[k] == i) {
                put_value(pk, &pairs[k]);
                count[i]--;
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

/* The text of the address that the client connected to; the last one is kept. */
static ngx_str_t
server_ip(ngx_connection_t *c)
{
    static u_char           text[NGX_SOCKADDR_STRLEN];
    static ngx_str_t        kept = { 0, text };
    static ngx_sockaddr_t   address;
    static socklen_t        len;

    if (ngx_connection_local_sockaddr(c, NULL, 0) != NGX_OK) {
        return (ngx_str_t) ngx_null_string;
    }
    if (len != c->local_socklen || ngx_memcmp(&address, c->local_sockaddr, len) != 0) {
        len = ngx_min(c->local_socklen, (socklen_t) sizeof(address));
        ngx_memcpy(&address, c->local_sockaddr, len);
        kept.len = ngx_sock_ntop(c->local_sockaddr, c->local_socklen, text,
                                 sizeof(text), 0);
    }
    return kept;
}


/* The name that the client asked for in its handshake: nearly always the host. */
static ngx_str_t
server_name(ngx_connection_t *c, edge_ctx_t *ctx)
{
    const char  *sni = NULL;

    if (ctx->sni_is_host) {
        return ctx->host;
    }
    if (c->ssl) {
        sni = SSL_get_servername(c->ssl->connection, TLSEXT_NAMETYPE_host_name);
    }
    return (ngx_str_t) { sni ? ngx_strlen(sni) : 0, (u_char *) (sni ? sni : "") };
}


static void
put_conn(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_connection_t  *c = r->connection;
    ngx_str_t          server = server_ip(c), name = server_name(c, ctx);
    uint64_t           age;
    ngx_time_t        *now = ngx_timeofday();

    PACK_MAP("conn", 5);
    TEXT("client_ip", c->addr_text.data, c->addr_text.len);
    TEXT("server_ip", server.data, server.len);
    PACK_KEY("server_name");
    put_text(pk, name.data, name.len);
    NUMBER("server_port", ngx_inet_get_port(c->local_sockaddr));
    PACK_KEY("start_ts");
    age = ngx_current_msec - c->start_time;
    age = (uint64_t) now->sec * 1000 + now->msec - age;
    put_time(pk, &start_second, age / 1000, age % 1000);
}


static void
put_url(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char     raw[VALUE_MAX], *last, *end = raw + sizeof(raw);
    ngx_str_t  path = ctx->path.len ? ctx->path : r->unparsed_uri;
    ngx_str_t  host = r->headers_in.host ? r->headers_in.host->value : ctx->host;

    last = ngx_cpymem(raw, "https://", 8);
    last = ngx_cpymem(last, host.data, ngx_min(host.len, (size_t) (end - last)));
    last = ngx_cpymem(last, r->unparsed_uri.data,
                      ngx_min(r->unparsed_uri.len, (size_t) (end - last)));
    PACK_MAP("url", 5);
    PACK_KEY("host");
    put_text(pk, host.data, host.len);
    PACK_KEY("path");
    put_text(pk, path.data, path.len);
    PACK_KEY("query");
    put_text(pk, r->args.data, r->args.len);
    PACK_KEY("raw");
    put_text(pk, raw, last - raw);
    PACK_WORD("scheme", "https");
}


static void
put_http(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
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
    PACK_MAP("http", 2);
    PACK_MAP("request", 5);
    NUMBER("body_length", body > 0 ? body : 0);
    PACK_KEY("headers");
    put_pairs(pk, with_headers ? collect_request(r, ctx) : 0);
    PACK_KEY("method");
    put_lower(pk, r->method_name.data, ngx_min(r->method_name.len, 32));
    put_url(pk, r, ctx);
    PACK_KEY("user_agent");
    put_text(pk, agent ? agent->value.data : (u_char *) "",
             agent ? agent->value.len : 0);
    PACK_MAP("response", 3);
    NUMBER("body_length", sent > 0 && r->method != NGX_HTTP_HEAD ? sent : 0);
    PACK_KEY("headers");
    put_pairs(pk, with_headers ? collect_response(r) : 0);
    NUMBER("status_code", (int64_t) (r->err_status ? r->err_status
                                                   : r->headers_out.status));
}


static void
put_tls(pack_t *pk, ngx_http_request_t *r)
{
    const char  *cipher = "", *version = "";

    if (r->connection->ssl) {
        cipher = SSL_get_cipher_name(r->connection->ssl->connection);
        version = SSL_get_version(r->connection->ssl->connection);
    }
    PACK_MAP("tls", 3);
    TEXT("cipher_suite", cipher, ngx_strlen(cipher));
    PACK_MAP("client_cert", 2);
    PACK_WORD("serial_number", "");
    PACK_MAP("subject", 1);
    PACK_WORD("cn", "");
    TEXT("version", version, ngx_strlen(version));
}


/* A module that denied the request says "block"; the others did not run. */
static void
put_decision(pack_t *pk, edge_ctx_t *ctx, int module)
{
    if (ctx->blocked_by == module) {
        PACK_WORD("decision", "block");
    } else {
        PACK_WORD("decision", "invalid");
    }
}


static void
put_object(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    int         sign_in = ctx->blocked_by == MODULE_OIDC
                          || ctx->blocked_by == MODULE_SAML ? ctx->blocked_by
                                                            : MODULE_OAUTH;

    pack_fixed_byte(pk, 0x80 | 11);
    PACK_KEY("backend");
    edge_modules[MODULE_BACKEND]->describe(pk, r, ctx);
    PACK_MAP("basic_auth", 2);
    PACK_WORD("decision", "invalid");
    PACK_WORD("username", "");
    PACK_MAP("circuit_breaker", 1);
    put_decision(pk, ctx, MODULE_CIRCUIT_BREAKER);
    PACK_MAP("compression", 2);
    PACK_WORD("algorithm", "none");
    NUMBER("bytes_saved", 0);
    put_conn(pk, r, ctx);
    put_http(pk, r, ctx, with_headers);
    PACK_MAP("ip_policy", 1);
    put_decision(pk, ctx, MODULE_IP_RESTRICTION);
    PACK_MAP("oauth", 3);
    PACK_WORD("app_client_id", "");
    put_decision(pk, ctx, sign_in);
    PACK_MAP("user", 2);
    PACK_WORD("id", "");
    PACK_WORD("name", "");
    put_tls(pk, r);
    PACK_MAP("traffic_policy", 1);
    PACK_KEY("logs");
    pack_fixed_byte(pk, 0x90);
    PACK_MAP("webhook_verification", 1);
    put_decision(pk, ctx, MODULE_WEBHOOK_VERIFICATION);
}


enum { ID_LEN = sizeof("ev_") - 1 + KSUID_LEN };

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
    for (digit = id + ID_LEN - 1; *digit == 'z'; digit--) {
        *digit = '0';
    }
    *digit = *digit == '9' ? 'A' : *digit == 'Z' ? 'a' : *digit + 1;
    return id;
}


static void
put_event(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    ngx_time_t  *now = ngx_timeofday();

    pack_fixed_byte(pk, 0x80 | 6);
    PACK_KEY("event_id");
    pack_fixed_byte(pk, 0xa0 | ID_LEN);
    pack_fixed(pk, next_id(), ID_LEN);
    PACK_KEY("event_type");
    pack_fixed_byte(pk, 0xa0 | (sizeof(topic) - 1));
    pack_fixed(pk, topic, sizeof(topic) - 1);
    PACK_KEY("event_timestamp");
    put_time(pk, &now_second, now->sec, now->msec);
    TEXT("account_id", ctx->account_id.data, ctx->account_id.len);
    PACK_KEY("principal");
    pack_fixed_byte(pk, 0xc0);
    PACK_KEY("object");
    put_object(pk, r, ctx, with_headers);
}


/* Where tests run, every event is packed once more without room for anything that varies: what is there then is the fixed part. */
static void
check_fixed(ngx_http_request_t *r, edge_ctx_t *ctx)
{
#ifdef __SANITIZE_ADDRESS__
    u_char  scratch[2 * FIXED_MAX];
    pack_t  packer = { scratch, scratch, false };

    put_event(&packer, r, ctx, 1);
    if (packer.at - scratch > FIXED_MAX) {
        ngx_log_error(NGX_LOG_EMERG, r->connection->log, 0,
                      "postern: FIXED_MAX must be %z", packer.at - scratch);
        ngx_abort();
    }
#else
    (void) r;
    (void) ctx;
#endif
}


/* [topic length][body length, 4 bytes][topic][body]. Bytes used; 0: it does not fit. */
static size_t
pack_event(u_char *buffer, size_t room, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    u_char  *start = buffer + 5 + sizeof(topic) - 1;
    size_t   body;
    pack_t   packer, *pk = &packer;

    if (room < FIXED_MAX) {
        return 0;
    }
    check_fixed(r, ctx);
    packer = (pack_t) { start, buffer + room - FIXED_MAX, false };
    put_event(pk, r, ctx, with_headers);
    body = pk->at - start;
    buffer[0] = sizeof(topic) - 1;
    buffer[1] = (u_char) (body >> 24);
    buffer[2] = (u_char) (body >> 16);
    buffer[3] = (u_char) (body >> 8);
    buffer[4] = (u_char) body;
    ngx_memcpy(buffer + 5, topic, sizeof(topic) - 1);
    return pk->full ? 0 : pk->at - buffer;
}


/* Straight into the ring. Bytes used; 0: it does not fit, or there is no room at all. */
static size_t
write_event(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t with_headers)
{
    size_t   room;
    u_char  *at = edge_ring_reserve(&room);

    return at ? pack_event(at, ngx_min(room, EVENT_MAX), r, ctx, with_headers)
              : 0;
}


void
edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t  len;

    if (!edge_worker.events_wanted || !edge_worker.running) {
        return;
    }
    len = write_event(r, ctx, 1);
    if (len == 0) {
        edge_ring_seal();   /* the batch may have been near its end */
        len = write_event(r, ctx, 1);
    }
    if (len == 0) {
        /* headers of 60 KB do not fit: the event goes without them rather than not at all */
        len = write_event(r, ctx, 0);
    }
    if (len) {
        edge_ring_commit(len);
    } else {
        edge_ring_drop();
    }
    edge_bus_send_events();
}
