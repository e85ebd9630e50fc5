#include "services/edge/worker/edge_conf.h"

#include "common/base/authorities.h"

#include <ctype.h>

/* What a row's least and most are in. Times are in milliseconds here. */
typedef enum { TIME, SIZE, NUMBER, SWITCH, WORD, TEXT } kind_t;

typedef struct {
    const char  *name;      /* in capitals, without prefix */
    kind_t       kind;
    const char  *fallback, *least, *most;
} row_t;

enum {
#define EDGE_SETTING(name, kind, fallback, least, most, meaning)  ROW_##name,
#include "proto/edge_settings.def"
};

static const row_t  rows[] = {
#define EDGE_SETTING(name, kind, fallback, least, most, meaning)               \
    { #name, kind, fallback, least, most },
#include "proto/edge_settings.def"
};

static edge_conf_t  *in_use;


edge_conf_t *
edge_conf(void)
{
    return in_use;
}


void
edge_conf_use(edge_conf_t *conf)
{
    in_use = conf;
}


static off_t
amount_of(kind_t kind, const char *text)
{
    ngx_str_t  value = { ngx_strlen(text), (u_char *) text };

    switch (kind) {
    case TIME:
        return ngx_parse_time(&value, 0);
    case SIZE:
        return ngx_parse_offset(&value);
    default:
        return ngx_atoof(value.data, value.len);
    }
}


/* Gives a setting that nginx.conf does not have its default, and refuses one out of range. */
static ngx_int_t
settle(ngx_conf_t *cf, const row_t *row, off_t *value)
{
    u_char  name[64];
    size_t  len = ngx_strlen(row->name);

    if (*value == NGX_CONF_UNSET) {
        *value = amount_of(row->kind, row->fallback);
    }
    if (*value >= amount_of(row->kind, row->least)
        && *value <= amount_of(row->kind, row->most))
    {
        return NGX_OK;
    }
    ngx_strlow(name, (u_char *) row->name, len);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "POSTERN_%s (postern_%*s) must be from %s to %s",
                       row->name, len, name, row->least, row->most);
    return NGX_ERROR;
}


/* Names begin with it, so that it is part of one (RFC 9110 5.1), and so that all that begin so can
 * be kept from clients. */
static ngx_int_t
settle_prefix(ngx_conf_t *cf, ngx_str_t *prefix)
{
    size_t  i;

    if (prefix->len == 0) {
        prefix->data = (u_char *) rows[ROW_IDENTITY_HEADERS].fallback;
        prefix->len = ngx_strlen(prefix->data);
    }
    for (i = 0; i < prefix->len; i++) {
        if (!isalnum(prefix->data[i]) && prefix->data[i] != '-') {
            break;
        }
    }
    if (i == prefix->len && i >= 5 && i <= 64 && prefix->data[i - 1] == '-'
        && isalpha(prefix->data[0]))
    {
        return NGX_OK;
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "POSTERN_IDENTITY_HEADERS (postern_identity_headers) must "
                       "be 5 to 64 letters, digits and dashes, a letter first "
                       "and a dash last: \"%V\"", prefix);
    return NGX_ERROR;
}


/* postern-fetch reads the file when it is first needed, which is too late to say so. */
static ngx_int_t
check_authorities(ngx_conf_t *cf, const ngx_str_t *file)
{
    char  why[200];

    if (file->len == 0
        || authorities_check((char *) file->data, why, sizeof(why)) == 0)
    {
        return NGX_OK;
    }
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "POSTERN_OUT_CA (postern_out_ca): \"%V\" %s: name a PEM "
                       "file of authorities that the edge's user can read, or "
                       "leave it empty for the system's", file, why);
    return NGX_ERROR;
}


#define SETTLE(row, field)                                                     \
    do {                                                                       \
        off_t  value = conf->field;                                            \
                                                                               \
        if (settle(cf, &rows[row], &value) != NGX_OK) {                        \
            return NGX_ERROR;                                                  \
        }                                                                      \
        conf->field = value;                                                   \
    } while (0)

ngx_int_t
edge_conf_settle(ngx_conf_t *cf, edge_conf_t *conf)
{
    SETTLE(ROW_EVENT_RING, ring_size);
    SETTLE(ROW_EVENT_SPOOL, spool_size);
    SETTLE(ROW_RESPONSE_HEADER_SIZE, response_header_size);
    SETTLE(ROW_TICKET_PERIOD, ticket_period);
    SETTLE(ROW_TRACE_SAMPLED, trace_sampled);
    SETTLE(ROW_ROUTE_METRICS, route_metrics);
    SETTLE(ROW_SESSIONS, sessions_size);
    SETTLE(ROW_SESSION_TRUST, session_trust);
    SETTLE(ROW_USER_JWTS, user_jwts);
    SETTLE(ROW_REQUEST_MEMORY, request_memory);
    SETTLE(ROW_CLIENT_PORTION, client_portion);
    SETTLE(ROW_ACCOUNT_PORTION, account_portion);
    SETTLE(ROW_CLIENT_TAKE_MIN, client_take_min);
    SETTLE(ROW_CLIENT_GIVE_MIN, client_give_min);
    if (check_authorities(cf, &conf->out_ca) != NGX_OK) {
        return NGX_ERROR;
    }
    return settle_prefix(cf, &conf->identity_headers);
}
