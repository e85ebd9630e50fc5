/* A route's modules in their order, for who serves requests. What modules themselves may call
 * stands in modules/module.h. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

/* While the configuration is read: checks the modules, and asks nginx for their zones. */
ngx_int_t edge_modules_install(ngx_conf_t *cf);
/* As run of one, from first on; NGX_DECLINED when all went on. */
ngx_int_t edge_modules_run(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t first);
/* What is counted for every module; its own counters follow. */
typedef enum {
    EDGE_MODULE_DENIED,
    EDGE_MODULE_SUSPENDED,
    EDGE_MODULE_RESUMED,
    EDGE_MODULE_ABORTED, /* each that was suspended is resumed or aborted */
    EDGE_MODULE_EXPIRED, /* and aborted, because it waited for too long */
    EDGE_MODULE_NOTES
} edge_module_note_t;
/* Count it. */
void edge_modules_note(module_id_t module, edge_module_note_t note);
/* As judge of one, of the route as it is now; *module is the one whose code it is. */
ngx_uint_t edge_modules_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route,
                              int *module);
/* Of the modules of the request's route. NGX_OK | 500. */
ngx_int_t edge_modules_response_header(ngx_http_request_t *r);
/* What they say for the event. */
void edge_modules_describe(struct pack *pk, ngx_http_request_t *r, edge_ctx_t *ctx);
/* With the request's memory. */
void edge_modules_clean(edge_ctx_t *ctx);
/* Their counters as text; returns its end. */
u_char *edge_modules_metrics(u_char *p, u_char *end);
