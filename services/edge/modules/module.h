/* The contract of route modules. A module is one file here, module_<name>.c, which defines
 *
 *     const edge_module_t module_<name> = {.parse = ..., .run = ..., ...};
 *
 * and one row of proto/modules.def, which says IN_FILE. The row's place is when it runs; enum,
 * name, registry and the event's decision follow from it. A hook that a module has no part in is
 * left out, and costs a request nothing.
 *
 * What goes on, in order:
 *   at start   zone, in the master, before workers are forked.
 *   a change   parse makes a configuration of the module's document, once for each version of a
 *              route. beyond is asked about it. free is called when the route has been replaced and
 *              no request has it any more.
 *   a request  run, module after module, until one denies; one that waits runs again later, or gets
 *              abort. judge, after each change while the request lasts. response_header and
 *              response_body. describe, for the event. clean, when the request's memory goes.
 *
 * All of it runs in the event loop of one worker: no hook may block, or allocate without a bound,
 * and no cost may grow with the number of routes. What a module knows of one request stands in its
 * state, never in a variable of the file: thousands of requests are between two of its hooks.
 *
 * The actions of a traffic policy are steps of one module: it parses them all into its
 * configuration, and keeps in its state which one is next. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum module_id {
#define MODULE(id, name, file, decision) MODULE_##id,
#include "proto/modules.def"
    MODULE_COUNT
} module_id_t;

_Static_assert(MODULE_COUNT <= 32, "a route has 32 bits for its modules");

/* In the order of the enum. */
extern const char *const module_names[MODULE_COUNT];

struct ngx_http_request_s;
struct ngx_chain_s;
struct edge_ctx;
struct pack;

enum {
    MODULE_STATE_MAX = 4096, /* bytes; what is larger belongs into the request's pool */
    MODULE_COUNTERS_MAX = 8,
    MODULE_SUSPEND_MAX_MS = 60 * 1000
};

typedef struct edge_module {
    /* What the route keeps of the module's document, freed with the route; NULL: nothing. It runs
     * without nginx, in the table's memory (table/slab.h), and reads with table/document.h. A
     * document that is not what the tables promise sets *bad: the route answers 503 from then on,
     * and the log and the event name route and module. What was made by then is returned all the
     * same, and freed. */
    void *(*parse)(const msgpack_object *document, bool *bad);
    /* Of what parse returned; never NULL. */
    void (*free)(void *config);
    /* Does it ask for more than the edge can do? Then requests are denied: 503. */
    bool (*beyond)(const void *config);

    /* Memory that all workers share, at least 32 KiB; 0: none. zone is called once, in the master,
     * with an empty ngx_slab_pool_t of that size. What it returns is what edge_module_zone gives to
     * every worker; NULL: the edge does not start, and says which module was at fault. Workers take
     * the pool's mutex where they change what is there. */
    size_t zone_size;
    void *(*zone)(void *slab_pool);

    /* What the module knows of one request: bytes, all zero when edge_module_state is asked for it
     * first, and aligned for 8 bytes. A request for which nobody asks has none. */
    size_t state_size;
    /* Once, when the request's memory goes; only where there is a state. */
    void (*clean)(void *state);

    /* Before the upstream is asked: NGX_DECLINED to go on with the next module; what edge_deny
     * returned; NGX_AGAIN when it waits, as edge_module_suspend or edge_module_read_body returned;
     * NGX_OK when it has set the content handler, and no later module is to run; or an HTTP status,
     * of a failure that is the edge's own. config is what parse returned. */
    intptr_t (*run)(struct ngx_http_request_s *r, struct edge_ctx *ctx, const void *config);
    /* The request that waits will not come back to run: the client went away or reset the stream,
     * it waited for too long, the configuration took it away, or the worker ends. Once; after it
     * whoever was to resume it must not know it any more. ctx and state are still there. */
    void (*abort)(struct ngx_http_request_s *r, struct edge_ctx *ctx);
    /* Of a request that is being served, after a change: 0, or the error (proto/errors.def) for
     * which it may not go on. config is that of the route now, ctx has what the request began with.
     * NULL: it may. */
    uintptr_t (*judge)(struct ngx_http_request_s *r, struct edge_ctx *ctx, const void *config);
    /* Before the head of an answer is sent, also of an error page: NGX_OK, else 500 is sent. */
    intptr_t (*response_header)(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                                const void *config);
    /* Of each part of the answer's body, in the order in which they are sent: NGX_OK, with *body
     * what is sent in place of it, or NGX_ERROR, which breaks the connection. */
    intptr_t (*response_body)(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                              const void *config, struct ngx_chain_s **body);
    /* Its fields of the event (events/edge_event.h), of every request: also of one for which it did
     * not run. */
    void (*describe)(struct pack *pk, struct ngx_http_request_s *r, struct edge_ctx *ctx);

    /* Names of its counters, at most MODULE_COUNTERS_MAX, ended by NULL: edge_module_count adds to
     * them, and /metrics of the edge has postern_edge_module_<name>_total{module="..."}, the sum of
     * all workers. How often it denied, and what became of requests that it suspended, is counted
     * for it. */
    const char *const *counters;
} edge_module_t;

/* NULL: the edge cannot enforce it, and a route that has it on answers 503. */
extern const edge_module_t *const edge_modules[MODULE_COUNT];

/* ---- what a module may call: http/edge_modules.c ---- */

/* The one way to deny: the page has the error's code and text (proto/errors.def), the event the
 * module, its route and its decision, the log a line. status: in place of the error's own; 0: its
 * own. Returns what run is to return. */
intptr_t edge_deny(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module,
                   uintptr_t code, uintptr_t status);

/* The module's state of this request, state_size bytes. NULL: no memory. */
void *edge_module_state(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module);
/* The same, but NULL where nobody asked for it yet: for hooks that run for every request. */
void *edge_module_state_if_any(const struct edge_ctx *ctx, module_id_t module);

/* Wait, at most ms milliseconds (0, or more than MODULE_SUSPEND_MAX_MS: those): run returns what
 * this returns. edge_module_resume, called by whoever has the answer, runs the module again from
 * its beginning, with the configuration that the request began with; modules before it do not run
 * again, those behind it run once. The request lasts no longer than its client: one that closes its
 * side of the connection is gone. Who waits for too long is denied (503). */
intptr_t edge_module_suspend(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module,
                             unsigned ms);
/* In the next turn of the event loop, also when called from within run. Nothing, where the request
 * does not wait; ctx must be of a request that was not aborted. */
void edge_module_resume(struct edge_ctx *ctx);

/* Read the request's body, of at most max bytes: NGX_OK, it is in r->request_body, parts of it
 * maybe in a file, and goes upstream like any other; NGX_DECLINED, it is longer, and the request
 * can only be denied; anything else is what run returns: ask again when it runs again. */
intptr_t edge_module_read_body(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                               module_id_t module, size_t max, unsigned ms);

/* What the module's zone returned. */
void *edge_module_zone(module_id_t module);

/* Add one to the counter-th of the module's counters. */
void edge_module_count(module_id_t module, unsigned counter);
