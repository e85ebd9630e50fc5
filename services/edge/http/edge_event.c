/* http_request_complete.v0: the log phase writes a request's raw values into the event ring. Names
 * of fields, capitals of headers, texts of times and valid UTF-8 are made by postern-events: done
 * here, they took two thirds of an event's time. Headers are in edge_event_headers.c. */
#include "services/edge/http/edge_event_put.h"
#include "services/edge/http/edge_log.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_times.h"
#include "services/edge/http/userinfo.h"
#include "services/edge/tls/edge_bio.h"
#include "services/edge/table/table.h"
#include "common/base/id.h"

enum {
    EVENT_MAX = 58000,
    METHOD_MAX = 32,
    FIXED_MAX = 318 /* what every event has: numbers of fields, ids, times */
};

/* In place of a topic's length (proto/WIRE.md, "Events"). */
enum { LAYOUT = 0, VALUES = 255, RECORD_HEAD = 5 };

static const char  layout[] = "http_request_complete.v0"
#define AUDIT(type, meaning)
#define TRAFFIC(type, meaning)
#define FIELD(event, id, name, type, flags, fallback, meaning) event##_FIELD(name, type, fallback)
#define HTTP_FIELD(name, type, fallback)  "\n" name " " #type " " fallback
#define TCP_FIELD(name, type, fallback)
#include "proto/events.def"
#undef HTTP_FIELD
#undef TCP_FIELD
    ;


/* Room for the field's number is part of FIXED_MAX, which pack_event sets aside. */
#define TEXT(field, value, n)                                                  \
    do { EVENT_FIELD(field); edge_event_put_text(pk, value, n); } while (0)
#define NUMBER(field, value)  do { EVENT_FIELD(field); pack_int64(pk, value); } while (0)


/* Milliseconds since 1970. */
static void
put_time(pack_t *pk, uint64_t ms)
{
    ms = htobe64(ms);
    pack_fixed_byte(pk, 0xcf);
    pack_fixed(pk, &ms, sizeof(ms));
}


/* ---- the object ---- */

/* Text of the local address that the client connected to; the last one is cached. */
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


static void
put_conn(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx, uint64_t now)
{
    ngx_connection_t  *c = r->connection;
    ngx_str_t          server = server_ip(c);
    edge_client_t     *client = edge_client(c);

    TEXT(EVENT_CONN_CLIENT_IP, ctx->client_ip.data, ctx->client_ip.len);
    TEXT(EVENT_CONN_SERVER_IP, server.data, server.len);
    TEXT(EVENT_CONN_SERVER_NAME, client->name, client->name_len);
    NUMBER(EVENT_CONN_SERVER_PORT, ngx_inet_get_port(c->local_sockaddr));
    EVENT_FIELD(EVENT_CONN_START_TS);
    put_time(pk, now - (ngx_current_msec - c->start_time));
}


static void
put_method(pack_t *pk, const ngx_str_t *name)
{
    size_t  i, len = ngx_min(name->len, METHOD_MAX);

    pack_str_head(pk, len);
    for (i = 0; i < len; i++) {
        pack_byte(pk, ngx_tolower(name->data[i]));
    }
}


/* Cuts the user information out of a target that is no path (RFC 9112 3.2.2), and out of its query:
 * what is before it goes to *scheme. Of a target that was not understood all of it up to the last
 * '@' counts. */
static void
split_userinfo(ngx_str_t *uri, ngx_str_t *scheme, ngx_str_t *args,
    ngx_uint_t all)
{
    size_t   begin, end;
    u_char  *after;

    if (!userinfo_find((char *) uri->data, uri->len, all, &begin, &end)) {
        return;
    }
    after = uri->data + end;
    scheme->data = uri->data;
    scheme->len = ngx_min(begin, 16);
    if (args->data >= uri->data && args->data < after) {
        args->len -= ngx_min((size_t) (after - args->data), args->len);
        args->data = after;
    }
    uri->data = after;
    uri->len -= end;
}


/* A query with a code, a ticket or a state says only that there was one. */
static void
conceal(ngx_str_t *uri, ngx_str_t *args)
{
    u_char  *mark = ngx_strlchr(uri->data, uri->data + uri->len, '?');

    if (mark) {
        uri->len = mark - uri->data;
    }
    if (args->len) {
        ngx_str_set(args, "[redacted]");
    }
}


static void
put_url(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char     *end;
    ngx_str_t   path, uri = r->unparsed_uri, args = r->args;
    ngx_str_t   host = ctx->authority;
    ngx_str_t   scheme = ngx_string("https://");
    size_t      host_len, uri_len, begin, after;

    if (ctx->concealed) {
        conceal(&uri, &args);
    }
    if (r->connection->ssl == NULL) {
        ngx_str_set(&scheme, "http://");
        EVENT_WORD(EVENT_HTTP_REQUEST_URL_SCHEME, "http");
    }
    if (uri.len ? uri.data[0] != '/' : host.len == 0) {
        scheme.len = host.len = 0;
        split_userinfo(&uri, &scheme, &args, ctx->path.len == 0);
    } else if (userinfo_find((char *) host.data, host.len, 1, &begin, &after)) {
        host.data += after;
        host.len -= after;
    }
    path = ctx->path.len ? ctx->path : uri;
    end = path.len ? ngx_strlchr(path.data, path.data + path.len, '?') : NULL;
    if (end) {
        path.len = end - path.data;
    }
    host_len = ngx_min(host.len, EVENT_VALUE_MAX - scheme.len);
    uri_len = ngx_min(uri.len, EVENT_VALUE_MAX - scheme.len - host_len);
    EVENT_FIELD(EVENT_HTTP_REQUEST_URL_HOST);
    edge_event_put_public(pk, &ctx->host, 1);
    TEXT(EVENT_HTTP_REQUEST_URL_PATH, path.data, path.len);
    TEXT(EVENT_HTTP_REQUEST_URL_QUERY, args.data, args.len);
    EVENT_FIELD(EVENT_HTTP_REQUEST_URL_RAW);
    pack_str_head(pk, scheme.len + host_len + uri_len);
    pack_append(pk, scheme.data, scheme.len);
    pack_append(pk, host.data, host_len);
    pack_append(pk, uri.data, uri_len);
}


static void
put_http(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    ngx_table_elt_t  *agent = r->headers_in.user_agent;
    off_t             body = edge_body_received(r, ctx);
    off_t             sent = edge_body_sent(r, ctx);
    ngx_uint_t        left_out;
    char              error[EDGE_ERROR_BYTES];

    if (body > 0) {
        NUMBER(EVENT_HTTP_REQUEST_BODY_LENGTH, body);
    }
    TEXT(EVENT_HTTP_REQUEST_ID, ctx->request_id, REQUEST_ID_LEN);
    EVENT_FIELD(EVENT_HTTP_REQUEST_METHOD);
    put_method(pk, &r->method_name);
    if (ctx->trace_id) {
        TEXT(EVENT_HTTP_REQUEST_TRACE_ID, ctx->trace_id, TRACE_ID_LEN);
    }
    put_url(pk, r, ctx);
    if (agent) {
        TEXT(EVENT_HTTP_REQUEST_USER_AGENT, agent->value.data, agent->value.len);
    }
    if (sent > 0) {
        NUMBER(EVENT_HTTP_RESPONSE_BODY_LENGTH, sent);
    }
    if (ctx->error || ctx->cut_for) {
        edge_error_text(ctx->error ? ctx->error : ctx->cut_for, error);
        TEXT(EVENT_HTTP_RESPONSE_ERROR_CODE, error, ngx_strlen(error));
    }
    NUMBER(EVENT_HTTP_RESPONSE_STATUS_CODE,
           (int64_t) (r->err_status ? r->err_status : r->headers_out.status));
    EVENT_FIELD(EVENT_HTTP_REQUEST_HEADERS);
    left_out = edge_event_put_request_headers(pk, r, ctx, with_headers);
    if (left_out) {
        NUMBER(EVENT_HTTP_REQUEST_HEADERS_LEFT_OUT, left_out);
    }
    EVENT_FIELD(EVENT_HTTP_RESPONSE_HEADERS);
    left_out = edge_event_put_response_headers(pk, r, ctx, with_headers);
    if (left_out) {
        NUMBER(EVENT_HTTP_RESPONSE_HEADERS_LEFT_OUT, left_out);
    }
}


static void
put_tls(pack_t *pk, ngx_http_request_t *r)
{
    const char  *cipher, *version;

    if (r->connection->ssl) {
        cipher = SSL_get_cipher_name(r->connection->ssl->connection);
        version = SSL_get_version(r->connection->ssl->connection);
        TEXT(EVENT_TLS_CIPHER_SUITE, cipher, ngx_strlen(cipher));
        TEXT(EVENT_TLS_VERSION, version, ngx_strlen(version));
    }
}


/* The module that denied the request, for its route or for the account. Modules that only ran write
 * fields in their describe hook. */
static void
put_denial(pack_t *pk, edge_ctx_t *ctx)
{
    const char  *name = module_names[ctx->blocked_by];

    TEXT(EVENT_DENIED_MODULE, name, ngx_strlen(name));
    if (ctx->restriction_id.len) {
        TEXT(EVENT_IP_POLICY_RESTRICTION_ID, ctx->restriction_id.data,
             ctx->restriction_id.len);
    } else if (ctx->route) {
        TEXT(EVENT_DENIED_ROUTE_ID, ctx->route->id, ngx_strlen(ctx->route->id));
    }
    switch ((module_id_t) ctx->blocked_by) {
#define DECIDES(field)  EVENT_WORD(EVENT_##field##_DECISION, "block");
#define DECIDES_NOTHING
#define MODULE(id, name, file, decision)  case MODULE_##id: decision break;
#include "proto/modules.def"
#undef DECIDES
#undef DECIDES_NOTHING
    case MODULE_COUNT:
        break;
    }
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
    uint64_t     now_ms = (uint64_t) now->sec * 1000 + now->msec;

    EVENT_FIELD(EVENT_ID);
    pack_fixed_byte(pk, 0xa0 | ID_LEN);
    pack_fixed(pk, next_id(), ID_LEN);
    EVENT_FIELD(EVENT_TIMESTAMP);
    /* a page of the edge: its request may last until the client has sent what it likes to send */
    put_time(pk, ctx->refused_at ? ctx->refused_at : now_ms);
    TEXT(EVENT_ACCOUNT_ID, ctx->account_id.data, ctx->account_id.len);
    put_conn(pk, r, ctx, now_ms);
    put_http(pk, r, ctx, with_headers);
    put_tls(pk, r);
    if (ctx->blocked_by >= 0) {
        put_denial(pk, ctx);
    }
    edge_modules_describe(pk, r, ctx);
    edge_times_describe(pk, ctx);
}


/* In builds with AddressSanitizer each event is packed once more without room for variable parts:
 * the size of what remains must not exceed FIXED_MAX. */
static void
check_fixed(ngx_http_request_t *r, edge_ctx_t *ctx)
{
#ifdef __SANITIZE_ADDRESS__
    u_char  scratch[2 * FIXED_MAX];
    pack_t  packer = { scratch, scratch, false };

    put_event(&packer, r, ctx, 1);
    if (RECORD_HEAD + packer.at - scratch > FIXED_MAX) {
        ngx_log_error(NGX_LOG_EMERG, r->connection->log, 0,
                      "postern: FIXED_MAX must be %z",
                      RECORD_HEAD + packer.at - scratch);
        ngx_abort();
    }
#else
    (void) r;
    (void) ctx;
#endif
}


static void
put_head(u_char *at, unsigned kind, size_t len)
{
    at[0] = (u_char) kind;
    at[1] = (u_char) (len >> 24);
    at[2] = (u_char) (len >> 16);
    at[3] = (u_char) (len >> 8);
    at[4] = (u_char) len;
}


/* Packs [VALUES][length, 4 bytes][values]. Returns the bytes used; 0: the event does not fit. */
static size_t
pack_event(u_char *buffer, size_t room, ngx_http_request_t *r, edge_ctx_t *ctx,
    ngx_uint_t with_headers)
{
    u_char  *start = buffer + RECORD_HEAD;
    pack_t   packer;

    if (room < FIXED_MAX) {
        return 0;
    }
    check_fixed(r, ctx);
    packer = (pack_t) { start, buffer + room - FIXED_MAX, false };
    put_event(&packer, r, ctx, with_headers);
    put_head(buffer, VALUES, packer.at - start);
    return packer.full ? 0 : packer.at - buffer;
}


/* Packs the layout, which names the values of a batch and precedes them. Returns the bytes used. */
static size_t
pack_layout(u_char *buffer)
{
    put_head(buffer, LAYOUT, sizeof(layout) - 1);
    ngx_memcpy(buffer + RECORD_HEAD, layout, sizeof(layout) - 1);
    return RECORD_HEAD + sizeof(layout) - 1;
}


/* Packs straight into the ring. Returns the bytes used; 0: the event does not fit, or the ring is
 * full. */
static size_t
write_event(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t with_headers)
{
    size_t       room, head = 0, len;
    u_char      *at;
    ngx_uint_t   first;

    at = edge_ring_reserve(&room, &first);
    if (at == NULL) {
        return 0;
    }
    if (first) {
        if (room < RECORD_HEAD + sizeof(layout)) {
            return 0;
        }
        head = pack_layout(at);
    }
    len = pack_event(at + head, ngx_min(room - head, EVENT_MAX), r, ctx,
                     with_headers);
    return len ? head + len : 0;
}


static void
keep_event(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    size_t    len;
    uint32_t  account = edge_share_account_of(ctx);

    if (!edge_ring_has_share(account)) {
        edge_ring_drop_over_share();
        edge_ring_send();
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
        edge_ring_commit(len, account);
    } else {
        edge_ring_drop();
    }
    edge_ring_send();
}


void
edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (edge_ring_is_wanted()) {
        keep_event(r, ctx);
    }
    if (ctx->counted) {
        edge_ring_finish();
        ctx->counted = 0;
    }
}
