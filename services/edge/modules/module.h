/* The contract of route modules. A module is one file here, module_<name>.c, which defines
 *
 *     const edge_module_t module_<name> = {.parse = ..., .run = ..., ...};
 *
 * and one row of proto/modules.def, which says IN_FILE. The row's place is when it runs; enum,
 * name, registry and the event's decision follow from it. A hook that a module does not need is
 * left NULL, and costs a request nothing.
 *
 * When hooks are called:
 *   at start   zone, in the master, before workers are forked; start, in each worker.
 *   a change   parse makes a configuration of the module's document, once for each version of a
 *              route; then beyond checks the configuration. free is called when the route has been
 *              replaced and the last request that refers to it has ended.
 *   a request  prepare; run, module after module, until one denies. One that waits runs again later,
 *              or gets abort. judge, after each change while the request lasts. response_header and
 *              response_body. describe, for the event. stop, where the answer was cut and its rest
 *              is still on its way. clean, when the request's memory is freed.
 *
 * All hooks of a request run in the event loop of one worker: none may block or allocate without a
 * bound, and no cost may grow with the number of routes. What a module knows of one request belongs
 * into its state, never into a variable of the file: between two hooks of one request the worker
 * serves thousands of others.
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

/* Names of the modules, indexed by module_id_t. */
extern const char *const module_names[MODULE_COUNT];

struct ngx_http_request_s;
struct ngx_cycle_s;
struct ngx_chain_s;
struct edge_ctx;
struct pack;

enum {
    MODULE_STATE_MAX = 4096, /* bytes; larger state is allocated from the request's pool */
    MODULE_COUNTERS_MAX = 16,
    MODULE_SUSPEND_MAX_MS = 60 * 1000
};

typedef struct edge_module {
    /* Returns the module's configuration of one route, freed with the route; NULL: there is none.
     * Runs without nginx, in the table's memory (table/slab.h), and reads the document with
     * table/document.h. A document that does not match the schema (proto/) sets *bad: the route
     * answers 503 from then on, and the log and the event name route and module. What was allocated
     * until then is returned all the same, and freed. */
    void *(*parse)(const msgpack_object *document, bool *bad);
    /* Frees what parse returned; never called with NULL. */
    void (*free)(void *config);
    /* What the configuration takes in memory beyond some copies of its document: an estimate. No
     * hook: nothing. */
    size_t (*bytes)(const void *config);
    /* Does the configuration ask for more than the edge can do? Then requests get 503. */
    bool (*beyond)(const void *config);

    /* Memory that all workers share, at least 32 KiB; 0: none. zone is called once, in the master,
     * with an empty ngx_slab_pool_t of that size. edge_module_zone gives its result to every
     * worker; NULL: the edge does not start, and logs which module failed. Workers hold the pool's
     * mutex while they change this memory. */
    size_t zone_size;
    size_t (*zone_bytes)(void); /* NULL, or in place of zone_size, where a setting says it */
    void *(*zone)(void *slab_pool);

    /* In each worker, before it has requests, and before it follows the config log. */
    void (*start)(struct ngx_cycle_s *cycle);

    /* Size of the module's state of one request, in bytes. The first edge_module_state of a request
     * allocates it, zeroed and aligned for 8 bytes; without such a call there is none. */
    size_t state_size;
    /* The answer was cut in the middle, and nothing of its body is asked of the module any more,
     * but the request's memory stays for what its client has not taken yet: what is not part of
     * that can go. May be called several times, and only for a request that has a state. */
    void (*stop)(void *state);
    /* Once, when the request's memory is freed; only for a request that has a state. */
    void (*clean)(void *state);

    /* As soon as the request has its route, while its head is yet to be looked at for the upstream:
     * what run is going to read in memory can be on its way to the processor meanwhile. Decides
     * nothing; what it keeps in the module's state means nothing where run is not called. */
    void (*prepare)(struct ngx_http_request_s *r, struct edge_ctx *ctx, const void *config);
    /* Before the request goes to the upstream: NGX_DECLINED to go on with the next module; what
     * edge_deny returned; NGX_AGAIN when the module waits, as edge_module_suspend or
     * edge_module_read_body returned; NGX_OK when it has set the content handler, and no later
     * module is to run; or an HTTP status, for a failure of the edge itself. config is what parse
     * returned. */
    intptr_t (*run)(struct ngx_http_request_s *r, struct edge_ctx *ctx, const void *config);
    /* A request that this module suspended will not come back to run: the client went away or reset
     * the stream, the wait timed out, the body cannot be read, a change of the configuration ended
     * the request, or the worker closes its connections. Called once; ctx and the module's state
     * are still valid, and the module must drop every reference to the request, so that nothing
     * resumes it later. Not called in a worker that is terminated (SIGTERM) or dies: its memory
     * goes with it, and what a module keeps in shared memory or elsewhere on behalf of a request
     * needs a limit of its own. */
    void (*abort)(struct ngx_http_request_s *r, struct edge_ctx *ctx);
    /* May a request that is being served go on? Called after a change of its route, its edge or the
     * entries named by the next hook: 0, or the error (proto/errors.def) with which it is ended.
     * config is that of the route as it is now, ctx has what the request began with. No hook: it
     * may go on. */
    uintptr_t (*judge)(struct ngx_http_request_s *r, struct edge_ctx *ctx, const void *config);
    /* The entries of the config log, beside route and edge, that judge looks up in the table:
     * writes at most entries_max ids, which live as long as config, and returns how many. A
     * change of one of these entries calls judge, too. */
    unsigned (*entries)(const void *config, const char **ids);
    unsigned entries_max;
    /* Before the head of a response is sent, also of an error page: NGX_OK, else 500 is sent. */
    intptr_t (*response_header)(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                                const void *config);
    /* For each part of the response's body, in order: NGX_OK, with *body replaced by what is to
     * be sent instead, or NGX_ERROR, which breaks the connection. Buffers that the module does
     * not pass on at once stay as they are until it has taken their bytes, and nothing is read
     * into them. Also called with *body NULL, when the client may take more: a module that keeps
     * something back sets NGX_HTTP_GZIP_BUFFERED of r->connection->buffered as long as it does. */
    intptr_t (*response_body)(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                              const void *config, struct ngx_chain_s **body);
    /* Writes the module's fields of the event (http/edge_event.h); called for every request, also
     * for one for which the module did not run. */
    void (*describe)(struct pack *pk, struct ngx_http_request_s *r, struct edge_ctx *ctx);

    /* Names of the module's counters, at most MODULE_COUNTERS_MAX, ended by NULL. edge_module_count
     * adds to them; /metrics of the edge has postern_edge_module_<name>_total{module="..."}, the
     * sum of all workers. Denials and the outcomes of suspended requests are counted by the edge
     * (http/edge_modules.h). */
    const char *const *counters;
    /* Writes gauges of the module for /metrics, up to end; returns the end of the text. */
    unsigned char *(*metrics)(unsigned char *p, unsigned char *end);
} edge_module_t;

/* Indexed by module_id_t. NULL: the edge cannot enforce the module, and a route that enables it
 * answers 503. */
extern const edge_module_t *const edge_modules[MODULE_COUNT];

/* ---- what a module may call: http/edge_modules.c ---- */

/* The one way to deny: the page has the error's code and text (proto/errors.def), the event has the
 * module, its route and its decision, the log has a line. status replaces the HTTP status of the
 * error's row; 0 keeps that one. Returns what run is to return. */
intptr_t edge_deny(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module,
                   uintptr_t code, uintptr_t status);
/* The same of a request that is on its way upstream: it gets the page when its upstream fails,
 * which it must have done, or be about to. */
void edge_deny_late(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module,
                    uintptr_t code);

/* The module's state of this request, state_size bytes, allocated by the first call. NULL: no
 * memory. */
void *edge_module_state(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module);
/* The same without allocating: NULL if the request has no state of the module. For hooks that run
 * for every request. */
void *edge_module_state_if_any(const struct edge_ctx *ctx, module_id_t module);

/* Suspend the request for at most ms milliseconds (0, or more than MODULE_SUSPEND_MAX_MS, means
 * MODULE_SUSPEND_MAX_MS); run returns what this returns. edge_module_resume, called when the answer
 * is there, calls the module's run again, with the configuration that the request began with;
 * earlier modules do not run again, later ones run once. A client that closes its side of the
 * connection ends the request. A wait that times out is denied (503). */
intptr_t edge_module_suspend(struct ngx_http_request_s *r, struct edge_ctx *ctx, module_id_t module,
                             unsigned ms);
/* Run the module again in the next turn of the event loop, also when called from within run. No
 * effect on a request that does not wait; ctx must be of a request that was not aborted. */
void edge_module_resume(struct edge_ctx *ctx);

/* Read the request's body, of at most max bytes. NGX_OK: it is complete in r->request_body, and
 * goes upstream like any other. It is in memory, except where it came in chunks whose framing
 * takes more than max and 64 KiB: then parts of it are in a file. NGX_DECLINED: it is longer
 * than max, and the request can only be denied; so can it with NGX_BUSY, where the worker has no
 * room for it (http/room.h). Anything else is what run returns: call this again when run is
 * called again, which is when the body is complete or when edge_module_resume comes first. In
 * the latter case reading goes on, and until the body is complete the module may wait again or
 * deny, but not let the request pass. */
intptr_t edge_module_read_body(struct ngx_http_request_s *r, struct edge_ctx *ctx,
                               module_id_t module, size_t max, unsigned ms);

/* The module's shared memory: what its zone hook returned. */
void *edge_module_zone(module_id_t module);

/* Add one to counters[counter] of the module, in this worker. */
void edge_module_count(module_id_t module, unsigned counter);
