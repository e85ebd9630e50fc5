/* compression: encodes bodies of responses for clients that accept a content coding. Here are the
 * fields of the head: who gets what, and what the response then says of itself. The body is
 * encoded in edge_compressor.c. */
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/modules/codings.h"
#include "services/edge/modules/edge_compressor.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_conf.h"

enum { LENGTH_MIN = 256 };   /* shorter bodies fit into a packet either way */

enum {
    COUNT_ZSTD, COUNT_BR, COUNT_GZIP, COUNT_DEFLATE, COUNT_FULL, COUNT_OVER_SHARE, COUNT_FAILED
};
static const char *const  counters[] = {
    "encoded_zstd", "encoded_br", "encoded_gzip", "encoded_deflate", "full", "over_share",
    "failed", NULL
};
_Static_assert((int) COUNT_FULL == (int) CODING_COUNT, "a counter for each coding");


/* ---- the head ---- */

/* What the fields of a response and its request say. */
typedef struct {
    ngx_table_elt_t  *etag, *vary;
    ngx_uint_t        etags;
    accepted_t        accepted;
    unsigned  encoded:1;
    unsigned  kept:1;          /* no-transform, or a digest that holds for these bytes only */
    unsigned  part:1;          /* Content-Range */
    unsigned  varied:1;        /* Vary names Accept-Encoding already */
    unsigned  credentials:1;
    unsigned  has_weak:1;      /* If-None-Match has the weak form of the ETag */
} fields_t;


static ngx_uint_t
has_member(const ngx_table_elt_t *header, const char *member)
{
    return coding_list_has((char *) header->value.data, header->value.len,
                           member);
}


static void
read_response_field(fields_t *fields, ngx_table_elt_t *header)
{
    switch (coding_field((char *) header->key.data, header->key.len)) {
    case FIELD_CACHE_CONTROL:
        fields->kept |= has_member(header, "no-transform");
        break;
    case FIELD_CONTENT_ENCODING:
        fields->encoded |= header->value.len != 8 || !has_member(header, "identity");
        break;
    case FIELD_CONTENT_RANGE:
        fields->part = 1;
        break;
    case FIELD_DIGEST:
        fields->kept = 1;
        break;
    case FIELD_ETAG:
        fields->etag = header;
        fields->etags++;
        break;
    case FIELD_SET_COOKIE:
        fields->credentials = 1;
        break;
    case FIELD_VARY:
        fields->vary = header;
        fields->varied |= coding_is_varied((char *) header->value.data,
                                           header->value.len);
        break;
    case FIELD_ACCEPT_RANGES:
    case FIELD_OTHER:
        break;
    }
}


static ngx_uint_t
is_named(const ngx_table_elt_t *header, const char *lower)
{
    ngx_str_t  name = edge_header_name(header);

    return name.len == ngx_strlen(lower)
           && ngx_strncasecmp(name.data, (u_char *) lower, name.len) == 0;
}


static void
read_request_field(fields_t *fields, const ngx_table_elt_t *header)
{
    const char  *value = (char *) header->value.data;

    if (is_named(header, "accept-encoding")) {
        accepted_add(&fields->accepted, value, header->value.len);
    } else if (is_named(header, "cache-control")) {
        fields->kept |= has_member(header, "no-transform");
    } else if (is_named(header, "cookie") || is_named(header, "authorization")) {
        fields->credentials = 1;
    } else if (is_named(header, "if-none-match") && fields->etag) {
        fields->has_weak |= coding_has_weak(value, header->value.len,
                                            (char *) fields->etag->value.data,
                                            fields->etag->value.len);
    }
}


/* The client's own fields, also those that request_headers removed, and none of what it added: that
 * is between the edge and the upstream. */
static void
read_request(ngx_http_request_t *r, edge_ctx_t *ctx, fields_t *fields)
{
    ngx_uint_t        i, end;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        end = part == ctx->own_part ? ctx->own_index : part->nelts;
        for (i = 0; i < end; i++) {
            read_request_field(fields, &header[i]);
        }
        if (part == ctx->own_part) {
            break;
        }
    }
}


static void
read_fields(ngx_http_request_t *r, edge_ctx_t *ctx, fields_t *fields)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    ngx_memzero(fields, sizeof(*fields));
    accepted_init(&fields->accepted);
    for (part = &r->headers_out.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].hash) {
                read_response_field(fields, &header[i]);
            }
        }
    }
    read_request(r, ctx, fields);
}


/* May the body be encoded, for some client? */
static ngx_uint_t
is_eligible(ngx_http_request_t *r, const fields_t *fields)
{
    ngx_uint_t  status = r->headers_out.status;
    off_t       length = r->headers_out.content_length_n;

    return status >= 200 && status != NGX_HTTP_NO_CONTENT && status != 205
           && status != NGX_HTTP_PARTIAL_CONTENT
           && !fields->encoded && !fields->kept && !fields->part
           && (length < 0 || length >= LENGTH_MIN)
           && coding_is_worth((char *) r->headers_out.content_type.data,
                              r->headers_out.content_type.len);
}


static coding_t
choose(ngx_http_request_t *r, const fields_t *fields)
{
    /* an HTTP/1.0 client knows a body's end by its length only, which encoding takes away */
    if (r->http_version < NGX_HTTP_VERSION_11
        || (fields->credentials && edge_conf()->compress_credentials == 0))
    {
        return CODING_NONE;
    }
    return accepted_best(&fields->accepted);
}


static ngx_int_t
add_field(ngx_http_request_t *r, const char *name, const char *value)
{
    ngx_table_elt_t  *header = ngx_list_push(&r->headers_out.headers);

    if (header == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(header, sizeof(*header));
    header->hash = 1;
    header->key.data = (u_char *) name;
    header->key.len = ngx_strlen(name);
    header->value.data = (u_char *) value;
    header->value.len = ngx_strlen(value);
    return NGX_OK;
}


static ngx_int_t
surround(ngx_http_request_t *r, ngx_str_t *value, const char *before,
    const char *after)
{
    size_t   len = ngx_strlen(before) + value->len + ngx_strlen(after);
    u_char  *text = ngx_pnalloc(r->pool, len + 1);

    if (text == NULL) {
        return NGX_ERROR;
    }
    ngx_snprintf(text, len, "%s%V%s", before, value, after);
    value->data = text;
    value->len = len;
    return NGX_OK;
}


static ngx_int_t
add_vary(ngx_http_request_t *r, const fields_t *fields)
{
    if (fields->varied) {
        return NGX_OK;
    }
    if (fields->vary && fields->vary->value.len) {
        return surround(r, &fields->vary->value, "", ", Accept-Encoding");
    }
    return add_field(r, "Vary", "Accept-Encoding");
}


/* A strong entity tag names these bytes, and what is sent has others (RFC 9110 8.8.3.3). */
static ngx_int_t
weaken(ngx_http_request_t *r, ngx_table_elt_t *etag)
{
    if (etag->value.len >= 2 && ngx_strncmp(etag->value.data, "W/", 2) == 0) {
        return NGX_OK;
    }
    if (etag->value.len < 2 || etag->value.data[0] != '"') {
        etag->hash = 0;   /* no entity tag */
        return NGX_OK;
    }
    return surround(r, &etag->value, "W/", "");
}


/* A field of an answer that has another body for this client: a tag may be there twice, and so may
 * "identity" where no other coding is. */
static ngx_int_t
change_field(ngx_http_request_t *r, ngx_table_elt_t *header, coding_field_t field)
{
    switch (field) {
    case FIELD_ETAG:
        return weaken(r, header);
    case FIELD_ACCEPT_RANGES:
    case FIELD_CONTENT_ENCODING:
        header->hash = 0;
        return NGX_OK;
    default:
        return NGX_OK;
    }
}


/* only: FIELD_OTHER means each of them. */
static ngx_int_t
change_each(ngx_http_request_t *r, coding_field_t only)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;
    coding_field_t    field;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            field = coding_field((char *) header[i].key.data, header[i].key.len);
            if (header[i].hash && (only == FIELD_OTHER || only == field)
                && change_field(r, &header[i], field) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


/* The fields of a response whose body is encoded, and of the response to HEAD in its place. */
static ngx_int_t
change_fields(ngx_http_request_t *r, coding_t coding)
{
    if (change_each(r, FIELD_OTHER) != NGX_OK) {
        return NGX_ERROR;
    }
    ngx_http_clear_content_length(r);
    ngx_http_clear_accept_ranges(r);
    return add_field(r, "Content-Encoding", coding_names[coding]);
}


/* NGX_BUSY, NGX_DECLINED: as it is, for compressor_begin has no encoder for it. */
static ngx_int_t
begin(ngx_http_request_t *r, edge_ctx_t *ctx, coding_t coding)
{
    ngx_int_t      rc;
    compressor_t  *self = edge_module_state(r, ctx, MODULE_COMPRESSION);

    if (self == NULL) {
        return NGX_ERROR;
    }
    rc = compressor_begin(self, r, ctx, coding);
    edge_module_count(MODULE_COMPRESSION, rc == NGX_OK ? coding
                                          : rc == NGX_BUSY ? COUNT_OVER_SHARE : COUNT_FULL);
    return rc;
}


/* Another head takes the place of one that could not be sent. */
static void
forget_head(edge_ctx_t *ctx)
{
    compressor_t  *self = edge_module_state_if_any(ctx, MODULE_COMPRESSION);

    if (self) {
        compressor_end(self);
        self->begun = 0;
    }
}


/* A client that has the encoded body has its weak tag. Which of several tags it has is not looked
 * for: weak is right for each. */
static ngx_int_t
change_not_modified(ngx_http_request_t *r, const fields_t *fields)
{
    if (fields->encoded || fields->kept) {
        return NGX_OK;
    }
    if ((fields->has_weak || fields->etags > 1) && change_each(r, FIELD_ETAG) != NGX_OK) {
        return NGX_ERROR;
    }
    return add_vary(r, fields);
}


static intptr_t
response_header(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    fields_t   fields;
    coding_t   coding;
    ngx_int_t  rc;

    (void) config;
    forget_head(ctx);
    if (ctx->error) {
        return NGX_OK;   /* a page of the edge: short, and not of the route's content */
    }
    read_fields(r, ctx, &fields);
    if (r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {
        return change_not_modified(r, &fields);
    }
    if (!is_eligible(r, &fields)) {
        return NGX_OK;
    }
    if (add_vary(r, &fields) != NGX_OK) {
        return NGX_ERROR;
    }
    coding = choose(r, &fields);
    if (coding == CODING_NONE) {
        return NGX_OK;
    }
    if (r->method != NGX_HTTP_HEAD) {
        rc = begin(r, ctx, coding);
        if (rc != NGX_OK) {
            return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
        }
    }
    return change_fields(r, coding);
}


/* ---- the request ---- */

static ngx_int_t
hide_each(ngx_http_request_t *r, edge_ctx_t *ctx, const char *lower)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (is_named(&header[i], lower) && edge_header_hide(r, ctx, &header[i]) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


static ngx_uint_t
is_date(const ngx_str_t *if_range)
{
    return if_range->len == 0
           || (if_range->data[if_range->len - 1] != '"' && if_range->data[0] != '"');
}


/* A client that has a part of an encoded body, and its Last-Modified, may ask for the rest if it is
 * still of that date: the upstream's bytes of that range are no rest of what it has. Without the
 * range it gets all, encoded. Tags are no such matter, for an encoded body's is weak. */
static intptr_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    fields_t  fields;

    (void) config;
    if (r->headers_in.if_range == NULL || !is_date(&r->headers_in.if_range->value)) {
        return NGX_DECLINED;
    }
    ngx_memzero(&fields, sizeof(fields));
    accepted_init(&fields.accepted);
    read_request(r, ctx, &fields);
    if (fields.kept || choose(r, &fields) == CODING_NONE) {
        return NGX_DECLINED;
    }
    if (hide_each(r, ctx, "if-range") != NGX_OK || hide_each(r, ctx, "range") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return NGX_DECLINED;
}


/* ---- the body, the event and the end ---- */

static intptr_t
response_body(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config,
    ngx_chain_t **body)
{
    ngx_int_t      rc;
    compressor_t  *self = edge_module_state_if_any(ctx, MODULE_COMPRESSION);

    (void) r;
    (void) config;
    rc = self ? compressor_encode(self, body) : NGX_OK;
    if (rc == NGX_ERROR) {
        edge_module_count(MODULE_COMPRESSION, COUNT_FAILED);
    }
    return rc;
}


static void
describe_compression(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    compressor_t  *self = edge_module_state_if_any(ctx, MODULE_COMPRESSION);

    if (self == NULL || !self->begun || !r->header_sent) {
        return;
    }
    EVENT_FIELD(EVENT_COMPRESSION_ALGORITHM);
    pack_str(pk, coding_names[self->coding],
             ngx_strlen(coding_names[self->coding]));
    EVENT_FIELD(EVENT_COMPRESSION_BYTES_SAVED);
    pack_int64(pk, self->taken - self->made);
}


static void
stop_encoding(void *state)
{
    compressor_stop(state);
}


static void
clean(void *state)
{
    compressor_end(state);
}


const edge_module_t  module_compression = {
    .state_size = sizeof(compressor_t),
    .stop = stop_encoding,
    .clean = clean,
    .run = run,
    .response_header = response_header,
    .response_body = response_body,
    .describe = describe_compression,
    .counters = counters,
};
