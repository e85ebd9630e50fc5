/* A queue of timed looks (looks.h) with its timer, which does not keep a graceful exit waiting. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "services/edge/http/looks.h"

typedef struct {
    looks_t queue;
    ngx_event_t timer;
    void (*look_at)(look_t *look); /* may forget and watch any, this one, too */
    ngx_uint_t (*rest)(void); /* the rest of each pass: is another pass needed for it? NULL: none */
} edge_looks_t;

/* Initialise one whose look_at and rest are set, in a worker, before it has requests. */
void edge_looks_start(edge_looks_t *self, ngx_cycle_t *cycle, ngx_msec_t period_ms);
/* Watch what is not watched. looks_forget: no more. */
void edge_looks_watch(edge_looks_t *self, look_t *look);
