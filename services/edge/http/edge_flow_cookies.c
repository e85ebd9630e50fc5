#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/cookies.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/flow_places.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    TIME_LEN = 8,           /* hexadecimal digits */
    MARK_LEN = FLOW_NAME_LEN + TIME_LEN,
    FORMER_BYTES = 12288,   /* what all cookies may have, so that those of versions before stay */
    LISTED_MAX = 64
};

#define NAME      "__Host-postern.login."
#define NAME_LEN  (sizeof(NAME) - 1)

/* Two names of each place. A flow that takes the place of another one has the name that this one
 * has not, and takes that away: when the other one ends, which did not hear of it, it takes its own
 * cookie away alone. Each answer leaves one of the two, so that there are no more than places. */
static const char  names[] = "0123456789" "abcdefghij";

/* A cookie of a flow that the browser has. */
typedef struct {
    int            place;   /* -1: a version before this one has set it */
    cookie_text_t  suffix;  /* of its name */
    cookie_text_t  flow;    /* FLOW_NAME_LEN characters; len 0: no edge wrote it */
    cookie_text_t  sealed;
    int64_t        since_s;
} flow_t;

typedef struct {
    ngx_uint_t  n;
    size_t      bytes;
    flow_t      each[LISTED_MAX];
} flows_t;


/* -1: it is the name of none. */
static int
place_of(char name)
{
    const char  *at = memchr(names, name, 2 * FLOW_PLACES);

    return at ? (int) (at - names) % FLOW_PLACES : -1;
}


static flow_t
read_flow(cookie_text_t suffix, cookie_text_t value)
{
    flow_t     flow = { .place = -1, .suffix = suffix, .flow = suffix, .sealed = value };
    ngx_int_t  since_s;

    if (suffix.len == FLOW_NAME_LEN) {
        return flow;
    }
    flow.place = place_of(*suffix.at);
    flow.flow.len = 0;
    flow.sealed.len = 0;
    since_s = value.len > MARK_LEN
              ? ngx_hextoi((u_char *) value.at + FLOW_NAME_LEN, TIME_LEN) : NGX_ERROR;
    if (since_s != NGX_ERROR) {
        flow.since_s = since_s;
        flow.flow = (cookie_text_t) { value.at, FLOW_NAME_LEN };
        flow.sealed = (cookie_text_t) { value.at + MARK_LEN, value.len - MARK_LEN };
    }
    return flow;
}


static ngx_uint_t
is_suffix(cookie_text_t suffix)
{
    return suffix.len == FLOW_NAME_LEN || (suffix.len == 1 && place_of(*suffix.at) >= 0);
}


static void
list_line(flows_t *flows, const ngx_str_t *text)
{
    cookie_text_t  line = { (char *) text->data, text->len }, name, value;

    while (flows->n < LISTED_MAX && cookies_next(&line, &name, &value)) {
        if (name.len <= NAME_LEN || ngx_memcmp(name.at, NAME, NAME_LEN) != 0) {
            continue;
        }
        name.at += NAME_LEN;
        name.len -= NAME_LEN;
        if (is_suffix(name)) {
            flows->each[flows->n++] = read_flow(name, value);
            flows->bytes += NAME_LEN + name.len + value.len;
        }
    }
}


static void
list_flows(flows_t *flows, ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    flows->n = 0;
    flows->bytes = 0;
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == 6
                && ngx_memcmp(header[i].lowcase_key, "cookie", 6) == 0)
            {
                list_line(flows, &header[i].value);
            }
        }
    }
}


/* The flow that a state names: what stands behind its dot. NULL: there is none, or several are. */
static const flow_t *
find_flow(const flows_t *flows, const char *state, size_t len)
{
    ngx_uint_t     i;
    const char    *dot = len ? memchr(state, '.', len) : NULL;
    const flow_t  *found = NULL;

    if (dot == NULL || (size_t) (state + len - dot) <= FLOW_NAME_LEN) {
        return NULL;
    }
    for (i = 0; i < flows->n; i++) {
        if (flows->each[i].flow.len == FLOW_NAME_LEN
            && ngx_memcmp(flows->each[i].flow.at, dot + 1, FLOW_NAME_LEN) == 0)
        {
            if (found) {
                return NULL;
            }
            found = &flows->each[i];
        }
    }
    return found;
}


ngx_str_t
edge_flow_cookie(ngx_http_request_t *r, const char *state, size_t len)
{
    flows_t        flows;
    ngx_str_t      none = ngx_null_string;
    const flow_t  *flow;

    list_flows(&flows, r);
    flow = find_flow(&flows, state, len);
    if (flow == NULL || flow->sealed.len > EDGE_SIGN_IN_COOKIE_MAX) {
        return none;
    }
    return (ngx_str_t) { flow->sealed.len, (u_char *) flow->sealed.at };
}


/* SameSite=None: some providers send browsers back with a form. */
static ngx_int_t
set_flow(ngx_http_request_t *r, cookie_text_t suffix, const ngx_str_t *value)
{
    u_char     text[NAME_LEN + FLOW_NAME_LEN];
    ngx_str_t  name = { NAME_LEN + suffix.len, text };

    ngx_memcpy(text, NAME, NAME_LEN);
    ngx_memcpy(text + NAME_LEN, suffix.at, suffix.len);
    return edge_sign_in_set_cookie(r, &name, value, value->len ? "; SameSite=None; Max-Age=900"
                                                               : "; SameSite=None");
}


static ngx_int_t
forget_flow(ngx_http_request_t *r, cookie_text_t suffix)
{
    ngx_str_t  none = ngx_null_string;

    return set_flow(r, suffix, &none);
}


/* Those of versions before this one, the oldest first (RFC 6265 5.4), until there is room. */
static ngx_int_t
drop_former(ngx_http_request_t *r, const flows_t *flows, size_t more, ngx_uint_t is_framed)
{
    size_t         bytes = flows->bytes + more;
    ngx_uint_t     i;
    const flow_t  *flow;

    for (i = 0; i < flows->n && bytes > FORMER_BYTES; i++) {
        flow = &flows->each[i];
        if (flow->place >= 0) {
            continue;
        }
        if (is_framed) {
            return NGX_DECLINED;
        }
        if (forget_flow(r, flow->suffix) != NGX_OK) {
            return NGX_ERROR;
        }
        bytes -= NAME_LEN + flow->suffix.len + flow->sealed.len;
    }
    return NGX_OK;
}


/* Requests that a browser sends at once have numbers one behind the other: their streams on its
 * connection, and where each has a connection what all workers count. */
uint64_t
edge_flow_turn(const ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return r->stream->node->id / 2;
    }
#endif
    return edge_vitals_turn();
}


static int
choose_place(const ngx_http_request_t *r, const flows_t *flows, size_t len, ngx_uint_t is_framed)
{
    int64_t        since_s;
    ngx_uint_t     i;
    flow_place_t   places[FLOW_PLACES];
    const flow_t  *flow;

    ngx_memzero(places, sizeof(places));
    for (i = 0; i < flows->n; i++) {
        flow = &flows->each[i];
        if (flow->place >= 0) {
            since_s = places[flow->place].since_s;
            places[flow->place] = (flow_place_t) { true, ngx_max(since_s, flow->since_s) };
        }
    }
    return flow_place(places, len > FLOW_NARROW_MAX, is_framed, ngx_time(),
                      edge_flow_turn(r));
}


/* Has the browser a cookie of that name? */
static ngx_uint_t
has_name(const flows_t *flows, char name)
{
    ngx_uint_t  i;

    for (i = 0; i < flows->n; i++) {
        if (flows->each[i].place >= 0 && *flows->each[i].suffix.at == name) {
            return 1;
        }
    }
    return 0;
}


/* Set the place's cookie under the name that nothing has, as far as is known, and take the other
 * one away. */
static ngx_int_t
set_place(ngx_http_request_t *r, const flows_t *flows, int place, const ngx_str_t *value)
{
    const char  *digit = &names[place], *letter = &names[place + FLOW_PLACES];
    ngx_uint_t   is_digit = !has_name(flows, *digit);

    if (set_flow(r, (cookie_text_t) { is_digit ? digit : letter, 1 }, value) != NGX_OK) {
        return NGX_ERROR;
    }
    return forget_flow(r, (cookie_text_t) { is_digit ? letter : digit, 1 });
}


ngx_int_t
edge_flow_cookie_add(ngx_http_request_t *r, const ngx_str_t *flow, const ngx_str_t *value,
    ngx_uint_t is_framed)
{
    int        place;
    flows_t    flows;
    ngx_int_t  rc;
    ngx_str_t  text;

    list_flows(&flows, r);
    place = choose_place(r, &flows, value->len, is_framed);
    if (place < 0) {
        return NGX_DECLINED;
    }
    text.len = MARK_LEN + value->len;
    rc = drop_former(r, &flows, NAME_LEN + 1 + text.len, is_framed);
    if (rc != NGX_OK) {
        return rc;
    }
    text.data = ngx_pnalloc(r->pool, text.len);
    if (text.data == NULL) {
        return NGX_ERROR;
    }
    (void) ngx_snprintf(text.data, text.len, "%V%08xL%V", flow, (int64_t) ngx_time(), value);
    return set_place(r, &flows, place, &text);
}


ngx_int_t
edge_flow_cookie_end(ngx_http_request_t *r, const char *state, size_t len)
{
    flows_t        flows;
    const flow_t  *flow;

    list_flows(&flows, r);
    flow = find_flow(&flows, state, len);
    return flow ? forget_flow(r, flow->suffix) : NGX_OK;
}


/* A line of the head that is too long has not been read: the names are known all the same. */
ngx_int_t
edge_flow_cookies_clear(ngx_http_request_t *r, const ngx_str_t *host)
{
    flows_t           flows;
    ngx_uint_t        i;
    const ngx_str_t  *own = &edge_conf()->sign_in_host;

    if (own->len == 0 || host->len != own->len
        || ngx_memcmp(host->data, own->data, own->len) != 0)
    {
        return NGX_OK;
    }
    for (i = 0; i < 2 * FLOW_PLACES; i++) {
        if (forget_flow(r, (cookie_text_t) { &names[i], 1 }) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    list_flows(&flows, r);
    for (i = 0; i < flows.n; i++) {
        if (flows.each[i].place < 0 && forget_flow(r, flows.each[i].suffix) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}
