/* Runs a route's modules in their order, for the code that serves requests. Functions that modules
 * themselves may call are in modules/module.h. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

/* While the configuration is read: check the modules, and ask nginx for their shared memory. */
ngx_int_t edge_modules_install(ngx_conf_t *cf);
/* Call start of all modules; in a worker, before it has requests. */
void edge_modules_start(ngx_cycle_t *cycle);
/* Call prepare of the route's enabled modules. */
void edge_modules_prepare(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Call run of the route's enabled modules, beginning with module first. Returns the result that
 * ended the walk; NGX_DECLINED when no module ended it. */
ngx_int_t edge_modules_run(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t first);
/* Counted for every module, before the module's own counters. */
typedef enum {
    EDGE_MODULE_DENIED,
    EDGE_MODULE_SUSPENDED,
    EDGE_MODULE_RESUMED,
    EDGE_MODULE_ABORTED, /* in total, SUSPENDED = RESUMED + ABORTED + still waiting */
    EDGE_MODULE_EXPIRED, /* those of ABORTED whose wait timed out */
    EDGE_MODULE_NOTES
} edge_module_note_t;
/* Add one to a counter of the module, in this worker. */
void edge_modules_note(module_id_t module, edge_module_note_t note);
/* May the request go on under route, the current version of its route? 0, or the error of the first
 * module that objects, which is set in *module. */
ngx_uint_t edge_modules_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
                              int *module);
/* Ids of the config log's entries on which judge of the route's modules depends, at most
 * EDGE_MODULE_ENTRIES_MAX; they live as long as route. Returns how many. */
enum { EDGE_MODULE_ENTRIES_MAX = 3 };   /* with the six of edge_streams.c: STREAM_KEYS_MAX */
ngx_uint_t edge_modules_entries(const route_t *route, const char **ids);
/* Call response_header of the modules of the request's route. NGX_OK | 500. */
ngx_int_t edge_modules_response_header(ngx_http_request_t *r);
/* Call describe of all modules, which write their fields of the event. */
void edge_modules_describe(struct pack *pk, ngx_http_request_t *r, edge_ctx_t *ctx);
/* Call stop of the modules that have a state. */
void edge_modules_stop(edge_ctx_t *ctx);
/* Call clean of the modules that have a state; when the request's memory is freed. */
void edge_modules_clean(edge_ctx_t *ctx);
/* Write the counters of all modules for /metrics, up to end; returns the end of the text. */
u_char *edge_modules_metrics(u_char *p, u_char *end);
