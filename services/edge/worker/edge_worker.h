/* What a worker of the edge serves. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"
#include "services/edge/worker/edge_conf.h"

/* One worker. */
typedef struct {
    edge_conf_t *conf;
    table_t *table;    /* in force */
    table_t *building; /* a snapshot that is arriving */
    table_t *retired;  /* a list: freed a little at a time */
    char log_id[64];
    int64_t revision; /* in force; 0: nothing yet */
    int events_wanted;
    ngx_uint_t running; /* sockets exist: not in the master */
} edge_worker_t;

extern edge_worker_t edge_worker;
