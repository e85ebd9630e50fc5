/* Cookies of sign-in, which http/edge_cookies.c keeps from upstreams, and the headers that tell an
 * upstream who somebody is. A client's own headers of these names are gone before modules run:
 * proto/forwarded.def. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/cookies.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/modules/token_hash.h"
#include "services/edge/worker/edge_conf.h"

enum { HOSTED, OURS, FAMILIES };

/* Which text of a session each name says, behind its family's prefix. */
static const struct {
    const char      *name;
    session_text_t   texts[FAMILIES];
    unsigned         hosted:1;   /* has the hosted service the name? */
} names[] = {
    { "User-Id", { SESSION_PROVIDER_ID, SESSION_USER }, 1 },
    { "User-Name", { SESSION_NAME, SESSION_NAME }, 1 },
    { "User-Email", { SESSION_EMAIL, SESSION_EMAIL }, 1 },
    { "User-Email-Unverified", { SESSION_EMAIL_UNVERIFIED, SESSION_EMAIL_UNVERIFIED }, 0 },
    { "User-Groups", { SESSION_GROUPS, SESSION_GROUPS }, 0 }
};

enum { NAMES = sizeof(names) / sizeof(names[0]), NAME_BYTES = 96 };

/* A header that says one of a session's texts; line is CRLF, its name, colon and space. */
typedef struct {
    header_t         header;
    session_text_t   which;
    size_t           line_len;
    char             name[NAME_BYTES], lower[NAME_BYTES], line[NAME_BYTES + 4];
} named_t;

/* In their order, which is that of their families. */
static named_t     made[FAMILIES * NAMES];
static ngx_uint_t  made_n;
static size_t      lines_bytes;   /* of all lines, without values */


/* ---- cookies ---- */

static ngx_uint_t
is_cookie(const ngx_table_elt_t *header)
{
    return header->key.len == sizeof("cookie") - 1
           && ngx_memcmp(header->lowcase_key, "cookie", sizeof("cookie") - 1) == 0;
}


static cookie_text_t
text_of(const ngx_str_t *text)
{
    return (cookie_text_t) { (char *) text->data, text->len };
}


static ngx_str_t
counted(unsigned count, cookie_text_t value)
{
    ngx_str_t  none = ngx_null_string;

    if (count != 1 || !cookies_is_token(value)) {
        return none;
    }
    return (ngx_str_t) { value.len, (u_char *) value.at };
}


ngx_int_t
edge_sign_in_hash(edge_sign_in_state_t *state)
{
    if (!token_hash(state->token.data, state->token.len, state->hash)) {
        return NGX_ERROR;
    }
    ngx_memcpy(state->named, state->hash, SESSION_HASH_BYTES);
    return NGX_OK;
}


void
edge_sign_in_put_hash(pack_t *pk, const edge_sign_in_state_t *state)
{
    u_char  hex[2 * SESSION_HASH_BYTES];

    ngx_hex_dump(hex, (u_char *) state->named, SESSION_HASH_BYTES);
    edge_sign_in_put(pk, "hash", hex, sizeof(hex));
}


/* Cookies of one name: how many there are, and the first of them. */
typedef struct {
    unsigned       n;
    cookie_text_t  each[SIGN_IN_COOKIES_MAX];
} found_t;


static void
find_sessions(found_t *found, cookie_text_t line, cookie_text_t name)
{
    cookie_text_t  its_name, value;

    while (cookies_next(&line, &its_name, &value)) {
        if (its_name.len != name.len || ngx_memcmp(its_name.at, name.at, name.len) != 0) {
            continue;
        }
        if (found->n < SIGN_IN_COOKIES_MAX) {
            found->each[found->n] = value;
        }
        found->n++;
    }
}


/* For a sign-out: those that can be of a session. NGX_OK | NGX_ERROR. */
static ngx_int_t
keep_others(ngx_pool_t *pool, edge_sign_in_state_t *state, const found_t *found)
{
    ngx_uint_t  i;

    state->others = ngx_palloc(pool, SIGN_IN_COOKIES_MAX * sizeof(ngx_str_t));
    if (state->others == NULL) {
        return NGX_ERROR;
    }
    for (i = 0; i < ngx_min(found->n, SIGN_IN_COOKIES_MAX); i++) {
        if (cookies_is_token(found->each[i])) {
            state->others[state->others_n++] = counted(1, found->each[i]);
        }
    }
    return NGX_OK;
}


/* Of several cookies of one name none counts: a browser has one, and who of several hosts has set
 * which of them nobody can say. */
ngx_int_t
edge_sign_in_read(ngx_http_request_t *r, edge_sign_in_state_t *state, const sign_in_t *config)
{
    ngx_uint_t        i;
    found_t           sessions = { .n = 0 };
    cookie_text_t     line;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (!is_cookie(&header[i])) {
                continue;
            }
            line = text_of(&header[i].value);
            find_sessions(&sessions, line, (cookie_text_t) {
                          config->session_cookie, config->session_cookie_len });
        }
    }
    state->too_many = sessions.n > SIGN_IN_COOKIES_MAX;
    if (sessions.n > 1) {
        return keep_others(r->pool, state, &sessions);
    }
    state->token = counted(sessions.n, sessions.each[0]);
    return state->token.len ? edge_sign_in_hash(state) : NGX_OK;
}


/* ---- who it is ---- */

static void
make_name(named_t *out, const char *prefix, size_t len, const char *name)
{
    snprintf(out->name, NAME_BYTES, "%.*s%s", (int) len, prefix, name);
    out->header.name = out->name;
    out->header.name_len = ngx_strlen(out->name);
    ngx_strlow((u_char *) out->lower, (u_char *) out->name,
               out->header.name_len + 1);
    out->header.lower = out->lower;
    out->header.hash = header_hash(out->lower);
    out->line_len = snprintf(out->line, sizeof(out->line), "\r\n%.*s%s: ", (int) len, prefix,
                             name);
}


static void
make_names(void)
{
    ngx_uint_t   i, family;
    ngx_str_t    hosted = ngx_string("Ngrok-Auth-"), *prefix = &hosted;

    for (family = HOSTED; family < FAMILIES; family++, prefix = &edge_conf()->identity_headers) {
        for (i = 0; i < NAMES; i++) {
            if (family == HOSTED && !names[i].hosted) {
                continue;
            }
            make_name(&made[made_n], (char *) prefix->data, prefix->len, names[i].name);
            lines_bytes += made[made_n].line_len;
            made[made_n++].which = names[i].texts[family];
        }
    }
}


/* Of texts that are plain the session's own bytes, which live as long as the request. */
static ngx_int_t
read_values(ngx_http_request_t *r, const session_t *session, ngx_str_t *values)
{
    ngx_uint_t   i, plain = sign_in_is_all_plain(session);
    const char  *text = session->text;

    for (i = 0; i < SESSION_TEXTS; text += session->lens[i++]) {
        values[i] = (ngx_str_t) { session->lens[i], (u_char *) text };
        if (values[i].len == 0 || (plain && i != SESSION_GROUPS)) {
            continue;
        }
        values[i].data = ngx_pnalloc(r->pool, 3 * values[i].len);
        if (values[i].data == NULL) {
            return NGX_ERROR;
        }
        values[i].len = sign_in_value((char *) values[i].data, text, values[i].len,
                                      i == SESSION_GROUPS);
    }
    return NGX_OK;
}


/* Does nobody look for one of the headers on its way from here to nginx's proxy module, which
 * writes name, colon and value as they are? A module that takes headers away does, and HTTP/2 has
 * no lines. */
static ngx_uint_t
may_be_one(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return (ctx->route->enabled & 1u << MODULE_REQUEST_HEADERS) == 0 && !edge_grpc_is_asked(r);
}


/* All headers as one, in whose value the lines of the others stand. No value has the end of a line
 * in it: sign_in_value. */
static ngx_int_t
tell_as_one(ngx_http_request_t *r, edge_ctx_t *ctx, const ngx_str_t *values)
{
    size_t            size = lines_bytes;
    u_char           *p;
    header_t          add = { .name = NULL };
    ngx_uint_t        i;
    const named_t    *one;
    const ngx_str_t  *value;

    for (i = 0; i < SESSION_TEXTS; i++) {
        size += FAMILIES * values[i].len;
    }
    p = ngx_pnalloc(r->pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }
    for (i = 0; i < made_n; i++) {
        one = &made[i];
        value = &values[one->which];
        if (value->len == 0) {
            continue;
        }
        if (add.name == NULL) {
            add = one->header;
            add.value = (char *) p;   /* without a line of its own */
        } else {
            p = ngx_cpymem(p, one->line, one->line_len);
        }
        p = ngx_cpymem(p, value->data, value->len);
    }
    add.value_len = (char *) p - add.value;
    return add.name ? edge_header_add(r, ctx, &add) : NGX_OK;
}


static ngx_int_t
tell_each(ngx_http_request_t *r, edge_ctx_t *ctx, const ngx_str_t *values)
{
    header_t          add;
    ngx_uint_t        i;
    const ngx_str_t  *value;

    for (i = 0; i < made_n; i++) {
        value = &values[made[i].which];
        if (value->len == 0) {
            continue;
        }
        add = made[i].header;
        add.value = (char *) value->data;
        add.value_len = value->len;
        if (edge_header_add(r, ctx, &add) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}


ngx_int_t
edge_sign_in_tell(ngx_http_request_t *r, edge_ctx_t *ctx, const session_t *session)
{
    ngx_str_t  values[SESSION_TEXTS];

    if (made_n == 0) {
        make_names();
    }
    if (read_values(r, session, values) != NGX_OK) {
        return NGX_ERROR;
    }
    return may_be_one(r, ctx) ? tell_as_one(r, ctx, values) : tell_each(r, ctx, values);
}
