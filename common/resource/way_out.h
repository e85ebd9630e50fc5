/* The way out (common/out/outbound.h) of a service's verbs, with its settings. Only a service whose
 * service_spec_t names it links libcurl. */
#pragma once

#include "common/base/config.h"
#include "common/out/outbound.h"

typedef struct way_out {
    const setting_t *settings;        /* ended by a NULL name */
    const char *calls, *calls_of_one; /* names of the settings with its bounds */
    /* 0 | fault, which is logged. The caller owns *ret_outbound. */
    int (*start)(outbound_t **ret_outbound, zloop_t *loop, const config_t *config);
    /* As outbound_send, outbound_metrics and outbound_destroy. */
    int (*send)(outbound_t *outbound, const outbound_request_t *request, outbound_fn on_answer,
                void *context, outbound_call_t **ret_call);
    size_t (*metrics)(const outbound_t *outbound, const char *service, char *out, size_t size);
    void (*stop)(outbound_t **outbound_p);
    const char *(*header)(const outbound_answer_t *answer, const char *name);
} way_out_t;

extern const way_out_t way_out;
