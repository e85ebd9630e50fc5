/* Of each worker, and there when it has died. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

typedef struct {
    uint64_t entries_refused; /* now */
    uint64_t helper_restarts;
    time_t helper_restarted; /* the last time that one was taken for dead; 0: never */
    uint64_t helper_absent;  /* now: it has none that answers */
    time_t config_current;   /* the last time that the config log said so; 0: never */
    uint64_t state_behind;   /* now: what is in force is not on disk (worker 0) */
} edge_vitals_t;
ngx_int_t edge_vitals_make(ngx_log_t *log); /* in the master, before anything is applied */
void edge_vitals_open(ngx_uint_t worker, ngx_log_t *log);
edge_vitals_t *edge_vitals(ngx_uint_t worker);
/* The master's trial ended early: was it in the middle of an entry? Then that is held against
 * it. */
ngx_uint_t edge_vitals_trial_died(ngx_log_t *log);
/* Around each entry that is applied; entry is all of its bytes. */
trust_t edge_vitals_begin(const ngx_str_t *kind, const ngx_str_t *id, const ngx_str_t *entry,
                          ngx_log_t *log);
void edge_vitals_end(void);
