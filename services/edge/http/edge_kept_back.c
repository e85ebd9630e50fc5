#include "services/edge/http/edge_kept_back.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    SAY_EVERY_S = 3600,
    SHOWN_MAX = 64   /* bytes of a name; never any of a value */
};


/* What stands before the first '=', as far as it can be shown in a line. */
static size_t
show_name(u_char out[SHOWN_MAX], const ngx_str_t *set_cookie)
{
    u_char   c;
    size_t   i;

    for (i = 0; i < set_cookie->len && i < SHOWN_MAX; i++) {
        c = set_cookie->data[i];
        if (c == '=' || c == ';') {
            break;
        }
        out[i] = c > 0x20 && c < 0x7f && c != '"' ? c : '?';
    }
    return i;
}


void
edge_kept_back(const ngx_http_request_t *r, route_t *route, const ngx_str_t *set_cookie)
{
    u_char     name[SHOWN_MAX];
    size_t     len;
    uint64_t  *count = &edge_vitals(ngx_worker)->cookies_kept_back;

    (*count)++;
    if (route->kept_back_said && ngx_time() - route->kept_back_said < SAY_EVERY_S) {
        return;
    }
    route->kept_back_said = ngx_time();
    len = show_name(name, set_cookie);
    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "postern: the upstream of route %s sets the cookie \"%*s\", which browsers "
                  "do not get: it is, or looks like, one of sign-in, so the application has to "
                  "call it otherwise (number %uL; at most one line an hour for a route)",
                  route->id, len, name, *count);
}
