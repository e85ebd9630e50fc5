#include "services/edge/http/edge_nonce_cookies.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/flow_places.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/cookie_names.h"
#include "services/edge/worker/edge_worker.h"
#include "common/codec/path.h"

#include <openssl/evp.h>
#include <string.h>

enum {
    FORMER_MAX = EDGE_NONCES_MAX - NONCE_PLACES,
    RETRIES_MAX = 5,
    RETRIES_PLACE = NONCE_PLACES
};

#define SIGN_IN_BITS  (1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML)

static const char       digits[] = "0123456789abcdef";   /* of places */
static const ngx_str_t  usual = ngx_string("__Host-postern.nonce");

/* What a request's cookies have of a module's. */
typedef struct {
    cookie_text_t  placed[NONCE_PLACES];   /* len 0: none */
    ngx_uint_t     formers;
    cookie_text_t  former[FORMER_MAX];     /* values of versions before this one */
    unsigned       retries;
} found_t;

/* What becomes of a cookie, whose name has that behind the module's and a dot; len 0: nothing. */
typedef ngx_int_t (*take_t)(ngx_http_request_t *r, void *data, cookie_text_t name,
    cookie_text_t behind, cookie_text_t value);


/* ---- reading ---- */

static ngx_str_t
name_of(const sign_in_t *config)
{
    return (ngx_str_t) { config->nonce_cookie_len, (u_char *) config->nonce_cookie };
}


static ngx_int_t
each_of_line(ngx_http_request_t *r, const ngx_str_t *text, const ngx_str_t *own, take_t take,
    void *data)
{
    const char     *behind;
    cookie_text_t   line = { (char *) text->data, text->len }, name, value, rest;

    while (cookies_next(&line, &name, &value)) {
        if (!cookie_name_is_nonce(name.at, name.len, (char *) own->data, own->len, &behind)) {
            continue;
        }
        rest = (cookie_text_t) { behind, behind ? (size_t) (name.at + name.len - behind) : 0 };
        if (take(r, data, name, rest, value) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}


static ngx_int_t
each_nonce(ngx_http_request_t *r, const ngx_str_t *own, take_t take, void *data)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == 6 && ngx_memcmp(header[i].lowcase_key, "cookie", 6) == 0
                && each_of_line(r, &header[i].value, own, take, data) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


/* Of versions before this one: behind the name are the first digits of the nonce's hash, and what
 * somebody else has given a browser by a name that he made up counts for nothing. */
static ngx_uint_t
is_named(cookie_text_t behind, cookie_text_t nonce)
{
    u_char  sum[EVP_MAX_MD_SIZE], own[COOKIE_NONCE_DIGITS];

    if (behind.len == 0) {
        return 1;
    }
    if (!EVP_Digest(nonce.at, nonce.len, sum, NULL, EVP_sha256(), NULL)) {
        return 0;
    }
    ngx_hex_dump(own, sum, COOKIE_NONCE_DIGITS / 2);
    return ngx_memcmp(behind.at, own, sizeof(own)) == 0;
}


static void
take_placed(found_t *found, char digit, cookie_text_t value)
{
    const char  *at = strchr(digits, digit);

    if (at == NULL) {
        return;   /* upper case: no edge wrote it */
    }
    if (at - digits == RETRIES_PLACE) {
        if (value.len == 1 && *value.at > '0' && *value.at <= '9') {
            found->retries = ngx_max(found->retries, (unsigned) (*value.at - '0'));
        }
    } else if (cookies_is_token(value) && found->placed[at - digits].len == 0) {
        found->placed[at - digits] = value;
    }
}


static ngx_int_t
take_nonce(ngx_http_request_t *r, void *data, cookie_text_t name, cookie_text_t behind,
    cookie_text_t value)
{
    found_t  *found = data;

    (void) r;
    (void) name;
    if (behind.len == 1) {
        take_placed(found, *behind.at, value);
    } else if (found->formers < FORMER_MAX && cookies_is_token(value) && is_named(behind, value)) {
        found->former[found->formers++] = value;
    }
    return NGX_OK;
}


static void
add_nonce(edge_nonces_t *nonces, cookie_text_t value)
{
    nonces->each[nonces->n++] = (ngx_str_t) { value.len, (u_char *) value.at };
}


edge_nonces_t *
edge_nonces_read(ngx_http_request_t *r, const sign_in_t *config)
{
    int             i;
    found_t         found;
    ngx_str_t       own = name_of(config);
    edge_nonces_t  *nonces = ngx_palloc(r->pool, sizeof(edge_nonces_t));

    if (nonces == NULL) {
        return NULL;
    }
    ngx_memzero(&found, sizeof(found));
    (void) each_nonce(r, &own, take_nonce, &found);   /* it always goes on */
    nonces->n = 0;
    nonces->place = -1;
    nonces->retries = found.retries;
    for (i = 0; i < NONCE_PLACES; i++) {
        if (found.placed[i].len) {
            nonces->place = nonces->n ? nonces->place : i;
            add_nonce(nonces, found.placed[i]);
        }
    }
    for (i = 0; i < (int) found.formers; i++) {
        add_nonce(nonces, found.former[i]);
    }
    return nonces;
}


/* ---- setting ---- */

/* Of that name, a dot and behind. Value empty: it is to be forgotten. */
static ngx_int_t
set_behind(ngx_http_request_t *r, const ngx_str_t *own, char behind, const ngx_str_t *value,
    const char *attributes)
{
    ngx_str_t  name = { own->len + 2, ngx_pnalloc(r->pool, own->len + 2) };

    if (name.data == NULL) {
        return NGX_ERROR;
    }
    (void) ngx_sprintf(name.data, "%V.%c", own, behind);
    return edge_sign_in_set_cookie(r, &name, value, attributes);
}


ngx_int_t
edge_nonce_set(ngx_http_request_t *r, const sign_in_t *config, const edge_nonces_t *nonces,
    const ngx_str_t *value, ngx_uint_t is_framed)
{
    ngx_str_t  own = name_of(config);
    int        place = nonces->place >= 0 ? nonces->place
                                          : nonce_place(is_framed, edge_flow_turn(r));

    return set_behind(r, &own, digits[place], value, "; SameSite=Lax; Max-Age=900");
}


ngx_int_t
edge_nonces_count_retry(ngx_http_request_t *r, const sign_in_t *config,
    const edge_nonces_t *nonces)
{
    u_char     *text;
    ngx_str_t   own = name_of(config), value;

    if (nonces->n == 0 || nonces->retries >= RETRIES_MAX) {
        return NGX_DECLINED;
    }
    text = ngx_pnalloc(r->pool, 1);
    if (text == NULL) {
        return NGX_ERROR;
    }
    *text = '1' + nonces->retries;
    value = (ngx_str_t) { 1, text };
    return set_behind(r, &own, digits[RETRIES_PLACE], &value, "; SameSite=Lax; Max-Age=60");
}


/* ---- a head that is too long ---- */

/* The module of the route that the path leads to. NULL: it is not known, or has none that is on. */
static const sign_in_t *
config_of(ngx_http_request_t *r, const edge_t *edge, const ngx_str_t *host)
{
    char           *path;
    size_t          len, size;
    u_char         *mark;
    ngx_str_t       asked = r->unparsed_uri;
    const route_t  *route;

    mark = asked.len ? ngx_strlchr(asked.data, asked.data + asked.len, '?') : NULL;
    asked.len = mark ? (size_t) (mark - asked.data) : asked.len;
    size = path_room((char *) asked.data, asked.len);
    path = asked.len ? ngx_pnalloc(r->pool, size) : NULL;
    if (path == NULL || path_normalize((char *) asked.data, asked.len, path, size, &len)) {
        return NULL;
    }
    route = table_route(edge, (char *) host->data, host->len, path, len);
    return route && route->match && !route->refused && !route->beyond
           && (route->enabled & SIGN_IN_BITS)
           ? route->configs[__builtin_ctz(route->enabled & SIGN_IN_BITS)] : NULL;
}


/* Those of versions before this one, as far as their line has been read. */
static ngx_int_t
forget_former(ngx_http_request_t *r, void *data, cookie_text_t name, cookie_text_t behind,
    cookie_text_t value)
{
    ngx_str_t   none = ngx_null_string, text = { name.len, (u_char *) name.at };
    ngx_uint_t *left = data;

    (void) value;
    if (behind.len == 1 || *left == 0) {
        return NGX_OK;
    }
    (*left)--;
    return edge_sign_in_set_cookie(r, &text, &none, "; SameSite=Lax");
}


/* A line of the head that is too long has not been read: the names are known all the same. */
ngx_int_t
edge_nonces_clear(ngx_http_request_t *r, const ngx_str_t *host)
{
    ngx_str_t         none = ngx_null_string, own = usual;
    ngx_uint_t        i, left = EDGE_NONCES_MAX;
    const edge_t     *edge;
    const sign_in_t  *config;

    edge = host->len ? table_edge(edge_worker_table(), (char *) host->data, host->len) : NULL;
    if (edge == NULL || !edge->present || edge->signing_in == 0) {
        return NGX_OK;
    }
    config = config_of(r, edge, host);
    if (config) {
        own = name_of(config);
    }
    for (i = 0; i <= RETRIES_PLACE; i++) {
        if (set_behind(r, &own, digits[i], &none, "; SameSite=Lax") != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return each_nonce(r, &own, forget_former, &left);
}
