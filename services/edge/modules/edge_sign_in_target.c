/* Where people may not be sent once they have signed in. Anybody can begin a sign-in, and names
 * where it leads to. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/worker/edge_worker.h"
#include "common/codec/path.h"


/* The route that serves the path at the request's host. NULL: none does. */
static const route_t *
route_of(const edge_sign_in_state_t *state, const char *path, size_t len)
{
    const char       *id = state->ctx->route->edge_id;
    const edge_t     *edge = strmap_get(edge_worker_table()->edges, id, ngx_strlen(id));
    const ngx_str_t  *host = &state->ctx->host;

    return edge ? table_route(edge, (char *) host->data, host->len, path, len) : NULL;
}


/* As the edge reads the path when it is asked for. */
ngx_uint_t
edge_sign_in_is_own(const edge_sign_in_state_t *state, const ngx_str_t *target)
{
    char            *path;
    size_t           len, size;
    const char      *prefix;
    const u_char    *at = target->data, *end = at + target->len;
    const route_t   *route;

    for ( ; at < end && *at != '?' && *at != '#'; at++) { /* void */ }
    size = 3 * (at - target->data) + 3;
    path = ngx_pnalloc(state->r->pool, size);
    if (path == NULL
        || path_normalize((char *) target->data, at - target->data, path, size, &len))
    {
        return 1;
    }
    route = route_of(state, path, len);
    if (route == NULL || route->match == NULL || (route->enabled & SIGN_IN_MODULES) == 0) {
        return 0;
    }
    prefix = route->match + route->host_len;
    return sign_in_path(path, len, prefix, ngx_strlen(prefix)) != SIGN_IN_UPSTREAM;
}
