/* The cache of sessions that all workers share, how long what is in it counts, and the clocks by
 * which that is told. What identity says of a session is in edge_sign_in_check.c. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/huge.h"

#include <sodium.h>
#include <time.h>

static int64_t  doubted;
static int64_t  ahead;   /* identity's clock of this machine's, in milliseconds */


/* ---- clocks ---- */

int64_t
edge_sign_in_clock(void)
{
    struct timespec  now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}


int64_t
edge_sign_in_now(void)
{
    ngx_time_t  *now = ngx_timeofday();

    return (int64_t) now->sec * 1000 + now->msec;
}


int64_t
edge_sign_in_identity_time(int64_t time)
{
    return sign_in_identity_time(time, ahead);
}


int64_t
edge_sign_in_local_time(int64_t identity_time)
{
    return sign_in_local_time(identity_time, ahead);
}


void
edge_sign_in_set_identity_clock(int64_t identity_now)
{
    ahead = identity_now - edge_sign_in_now();
}


int64_t
edge_sign_in_doubted(void)
{
    return doubted;
}


/* ---- the cache ---- */

sessions_t *
edge_sign_in_sessions(void)
{
    return edge_module_zone(MODULE_OAUTH);
}


/* What nginx is asked for: places begin with a huge page. */
static size_t
memory_bytes(void)
{
    return HUGE_PAGE_BYTES + SESSIONS_HEAD_BYTES + edge_conf()->sessions_size;
}


/* nginx divides the memory into pages, and needs some of it for that. */
size_t
edge_sign_in_zone_size(void)
{
    return memory_bytes() + memory_bytes() / 32 + 64 * 1024;
}


/* nginx has just mapped the memory: it is all zero. */
void *
edge_sign_in_zone(void *slab_pool)
{
    u_char  *places, *memory = ngx_slab_alloc(slab_pool, memory_bytes());
    u_char   secret[SESSION_SECRET_BYTES];

    if (memory == NULL || sodium_init() < 0) {
        return NULL;
    }
    places = huge_align(memory + SESSIONS_HEAD_BYTES);
    if (!ngx_test_config && !huge_map(places, edge_conf()->sessions_size)) {
        return NULL;
    }
    randombytes_buf(secret, sizeof(secret));
    return sessions_init(places - SESSIONS_HEAD_BYTES, edge_conf()->sessions_size, secret);
}


u_char *
edge_sign_in_metrics(u_char *p, u_char *end)
{
    const sessions_t  *sessions = edge_sign_in_sessions();

    return ngx_slprintf(p, end, "postern_edge_sessions %uz\n"
                        "postern_edge_sessions_max %uz\n",
                        sessions_count(sessions), sessions_places(sessions));
}


static void
on_ended(const u_char hash[32])
{
    sessions_end(edge_sign_in_sessions(), hash);
    edge_sign_in_jwt_drop(hash);
    edge_sign_in_live_end(hash, NULL, 0);   /* the log asks for the sweep, and waits for it */
}


/* What identity was asked in this millisecond may have been said before the log began anew. */
static void
on_doubt(void)
{
    doubted = edge_sign_in_clock() + 1;
}


void
edge_sign_in_cache_start(void)
{
    static const edge_session_log_handlers_t  handlers = { on_ended, on_doubt };

    on_doubt();
    edge_session_log_set(&handlers);
}


/* A worker that was in touch later than the session was asked for knows that it has not ended
 * until then. */
ngx_uint_t
edge_sign_in_is_trusted(const session_t *session, const u_char *bound)
{
    int64_t  last = session->asked_ms;

    if (session->asked_ms >= doubted) {
        last = ngx_max(last, (int64_t) edge_session_log_touched());
    }
    return sign_in_is_trusted(session, bound, edge_sign_in_now(), last,
                              edge_sign_in_clock(),
                              (int64_t) edge_conf()->session_trust);
}
