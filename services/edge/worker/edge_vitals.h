/* Health of each worker, in shared memory that outlives the worker (edge_vitals.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/table/table.h"

typedef struct {
    uint64_t entries_refused; /* now */
    uint64_t helper_restarts;
    time_t helper_restarted; /* last time that a helper was given up as dead; 0: never */
    uint64_t helper_absent;  /* now: no helper answers */
    time_t config_current;   /* last time that the config log confirmed the revision; 0: never */
    /* of the session log: in force, and ended by it since the master began */
    int64_t sessions_revision;
    uint64_t sessions_ended;
    uint64_t sessions_signed_ms; /* time of the last sign of life that the log is known to have
                                    heard, by edge_clock_boot_ms; 0: none */
    /* questions to postern-identity: */
    uint64_t identity_there; /* now: a copy of it is connected */
    uint64_t asks;
    uint64_t asks_unanswered; /* of them: without an answer in time */
    uint64_t state_behind;   /* now: the state file lacks what is in force (worker 0) */
    uint64_t over_share; /* requests without a connection to an upstream: http/share.h */
    uint64_t request_bytes; /* now: memory that requests under way are charged: http/portion.h */
    uint64_t lent_bytes;    /* now: of buffers that are lent for reads: http/edge_reader.c */
    uint64_t encoder_bytes; /* now: of encoders and what they made: modules/edge_compressor.c */
    uint64_t crowded;       /* requests refused because their client or account had its portion */
    uint64_t connections;   /* of all kinds, when one of a client's came or went last */
    uint64_t clients_refused;     /* connections of clients that had their portion of them */
    uint64_t clients_out_of_room; /* connections that would have been of the reserve */
    uint64_t slow_clients;        /* requests whose client took too little: http/edge_pace.c */
    uint64_t slow_bodies;         /* requests whose body came too slowly: http/edge_upload.c */
    uint64_t resetting_clients;   /* connections that reset most streams: http/edge_resets.c */
    uint64_t slivering_clients;   /* connections that take slivers: http/edge_slivers.c */
    uint64_t flooding_clients;    /* connections with too many frames: http/edge_frames.c */
    uint64_t logouts_unheard;     /* logout tokens refused for now: http/edge_sign_out.c */
    uint64_t cookies_kept_back;   /* that upstreams set: http/edge_kept_back.c */
    uint64_t kept_given_up; /* idle connections to upstreams closed because free ones ran short */
    uint64_t events_over_share; /* of the dropped ones: events/portions.h */
    /* connections refused at listeners of the PROXY protocol: */
    uint64_t proxy_strangers; /* by address */
    uint64_t proxy_headers;   /* without a header, or with one that is broken or late */
} edge_vitals_t;
/* Make the records; in the master, before any entry is applied. NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_vitals_make(ngx_log_t *log);
/* Use the record of a worker in this process, and count a death that it shows. */
void edge_vitals_open(ngx_uint_t worker, ngx_log_t *log);
/* The record of a worker. */
edge_vitals_t *edge_vitals(ngx_uint_t worker);
/* How often any worker has asked this before: no two get the same number. */
uint64_t edge_vitals_turn(void);
/* The master's trial process ended early: was it applying an entry? Then its death is counted
 * against that entry. */
ngx_uint_t edge_vitals_trial_died(ngx_log_t *log);
/* Call before and after each entry is applied; entry is its encoded form. Returns how much of the
 * entry may be read. */
trust_t edge_vitals_begin(const ngx_str_t *kind, const ngx_str_t *id, const ngx_str_t *entry,
                          ngx_log_t *log);
void edge_vitals_end(void);
