/* The edge module's parts. A worker owns one table of what it serves, a config log subscription, an
 * event ring in shared memory, and nothing that another process must answer before it can serve. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "common/base/address.h"
#include "services/edge/http/head.h"
#include "services/edge/table/table.h"

typedef struct {
    ngx_str_t name;       /* of this edge, in events and logs */
    ngx_str_t config_log; /* endpoint */
    ngx_str_t events;     /* endpoint */
    ngx_str_t state_dir;
    ngx_str_t state_key; /* 32-byte file */
    ngx_str_t curve_dir;
    ngx_uint_t https_port;       /* public, for redirects */
    ngx_str_t event_memory;      /* directory; none: only the edge's own processes see events */
    size_t ring_size;            /* event memory of each worker */
    off_t spool_size;            /* event file of each worker */
    size_t response_header_size; /* of an upstream, at most */
    time_t ticket_period;        /* for which one key seals session tickets */
    ngx_array_t *trusted;        /* ngx_cidr_t: proxies that are believed: edge_forwarded.c */
    ngx_str_t own_sockets, denied_upstreams, allowed_upstreams; /* lists of common/base/address.h */
    address_rules_t *addresses;                                 /* made of them */
} edge_conf_t;

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
extern ngx_module_t ngx_http_postern_module;

/* What edge_head.c knows of the answer that comes. */
typedef struct {
    head_t scan;
    ngx_int_t (*parse)(ngx_http_request_t *r); /* nginx's own, and the next */
    ngx_int_t (*reinit)(ngx_http_request_t *r);
    ngx_uint_t interims; /* 1xx */
    size_t interim_bytes;
    size_t passed; /* of them to a client of HTTP/1.1 */
} edge_head_t;

/* Bytes of bodies, as edge_body.c counts them. */
typedef struct {
    off_t given;    /* to the filter that makes chunks */
    off_t received; /* that somebody reads, and in chunks */
    off_t left;     /* to come when the request began */

    ngx_http_chunked_t chunked; /* of one in chunks that nobody reads, from here on */
    unsigned chunks_end : 1;
    ngx_connection_t *connection;
    ngx_recv_pt recv;  /* the connection's own; NULL: it is in place */
    ngx_event_t *turn; /* an HTTP/2 stream stays until it happens */
} edge_body_t;

/* What the answer said of itself when it was sent; nginx changes its mind later. */
typedef struct {
    time_t time;
    unsigned keepalive : 1;
} edge_sent_t;

/* A request. Found again after an internal redirect, which clears r->ctx. */
typedef struct edge_ctx {
    route_t *route;
    backend_t *backend;
    ngx_str_t host;      /* lower case, no port */
    ngx_str_t authority; /* the same with the client's port, if it named one */
    ngx_str_t path;      /* normalised: what was matched and what goes upstream */
    ngx_str_t upstream_host;
    ngx_str_t account_id;
    struct sockaddr *client;   /* the peer, or who a trusted proxy says it speaks for */
    ngx_str_t client_ip;       /* its text */
    ngx_str_t forwarded_for;   /* all that a trusted proxy said */
    ngx_uint_t error;          /* code of proto/errors.def; 0: none */
    int blocked_by;            /* module_id_t, or -1 */
    ngx_list_part_t *own_part; /* request headers from here on are ours, not the client's */
    ngx_uint_t own_index;
    ngx_array_t *hidden; /* client headers kept from the upstream: for the event */
    edge_head_t head;
    edge_body_t body;
    edge_sent_t sent;
    unsigned counted : 1;     /* among those in flight */
    unsigned may_upgrade : 1; /* Connection says so */
    unsigned upgrade : 1;     /* to what may be upgraded to */
    unsigned bad_tls : 1;
    unsigned from_proxy : 1; /* the peer is a trusted proxy */
    unsigned refused : 1;    /* by nginx, before it was routed */
    unsigned redirect : 1;   /* plain http: not an event of a route */

    ngx_http_request_t *request; /* edge_streams.c's from here on; NULL: not one of them */
    ngx_queue_t queue;
    ngx_uint_t round;
    ngx_msec_t force_at;

    char request_id[64];
} edge_ctx_t;

edge_ctx_t *edge_ctx(ngx_http_request_t *r);
edge_ctx_t *edge_ctx_new(ngx_http_request_t *r); /* NULL: no memory */

/* ngx_http_postern_module.c: are requests of this server routed, and do they leave events? */
ngx_uint_t edge_is_on(ngx_http_request_t *r);

/* edge_route.c: host and path to route, then its modules */
ngx_int_t edge_route_handler(ngx_http_request_t *r);
ngx_int_t edge_redirect_handler(ngx_http_request_t *r);
ngx_int_t edge_response_filter(ngx_http_request_t *r);
/* The event is of the edge's account. NGX_OK | NGX_ERROR: no memory. */
ngx_int_t edge_keep_account(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge);

/* edge_refused.c: what nginx refuses before it is routed */
/* The request's context, or a new one; NULL: no memory. */
edge_ctx_t *edge_refused(ngx_http_request_t *r);
/* For nginx's r->err_status. */
ngx_uint_t edge_refused_code(ngx_http_request_t *r);

/* edge_host.c: ctx->host and ctx->authority. NGX_OK | NGX_DECLINED: refused | NGX_ERROR. */
ngx_int_t edge_host(ngx_http_request_t *r, edge_ctx_t *ctx);

/* edge_hop.c: fields of the client's connection are kept from the upstream; ctx->may_upgrade. NGX_OK | NGX_DECLINED: refused, as
 * is a value with a control character | NGX_ERROR. */
ngx_int_t edge_hop_hide(ngx_http_request_t *r, edge_ctx_t *ctx);

/* edge_forwarded.c: who the client is; what the upstream is told of it */
ngx_int_t edge_forwarded_read(ngx_http_request_t *r, edge_ctx_t *ctx);
ngx_int_t edge_forwarded_set(ngx_http_request_t *r, edge_ctx_t *ctx);

/* module_<name>.c; edge_route.c has the table of them */
extern const edge_module_t module_backend, module_request_headers, module_response_headers;
/* Does response_headers of the route take this one from answers? */
ngx_uint_t edge_response_removes(const route_t *route, const char *name, size_t len);

/* edge_header.c */
/* Keep a client's header from the upstream; it stays in the event. */
ngx_int_t edge_header_hide(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_table_elt_t *header);
/* Add one of ours, after all of the client's. The strings must live as long as the request. */
ngx_int_t edge_header_add(ngx_http_request_t *r, edge_ctx_t *ctx, const header_t *add);
/* Add one to the response; the type of its content replaces what was there. The strings as above. */
ngx_int_t edge_header_answer(ngx_http_request_t *r, const header_t *add);
/* True when the header was hidden. */
ngx_uint_t edge_header_hidden(const ngx_table_elt_t *header);

/* edge_streams.c: requests that are being served, judged again when the configuration has changed */
void edge_streams_start(ngx_cycle_t *cycle);
void edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_streams_remove(edge_ctx_t *ctx);
void edge_streams_changed(void);
/* The connection takes no request after this one. */
void edge_streams_last(ngx_http_request_t *r);

/* edge_page.c: answers of the edge itself */
ngx_int_t edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code);
ngx_int_t edge_error_handler(ngx_http_request_t *r);
ngx_int_t edge_status_handler(ngx_http_request_t *r);

/* edge_body.c */
void edge_body_install(void);
void edge_body_begin(ngx_http_request_t *r, edge_ctx_t *ctx); /* when nothing has been read */
/* Read and thrown away, in place of ngx_http_discard_request_body: its bytes are counted, unless ctx is NULL. What is no body
 * ends the connection: NGX_OK or a status. */
ngx_int_t edge_body_discard(ngx_http_request_t *r, edge_ctx_t *ctx);
size_t edge_body_continued(ngx_http_request_t *r,
                           edge_ctx_t *ctx); /* bytes of a 100 that went before the answer */
void edge_body_end(edge_ctx_t *ctx);         /* with the request: the connection may have another */
off_t edge_body_received(ngx_http_request_t *r, edge_ctx_t *ctx);
off_t edge_body_sent(ngx_http_request_t *r, edge_ctx_t *ctx);

/* edge_head.c: before nginx's proxy reads what the upstream answers */
void edge_head_watch(ngx_http_request_t *r, edge_ctx_t *ctx);

/* edge_upstream.c */
char *edge_upstream_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* edge_address.c */
char *edge_address_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *edge_address_init(ngx_conf_t *cf, edge_conf_t *conf);
/* May a request go to this address of the backend? If not it is logged and counted. */
ngx_uint_t edge_address_permits(ngx_http_request_t *r, const backend_t *backend,
                                const struct sockaddr *address);

/* edge_bio.c: a client's socket under OpenSSL, for reading */
/* A connection, and the name and the TLS settings that its handshake was for; name folded; empty: without TLS. */
typedef struct {
    ngx_connection_t *connection;
    unsigned char profile[32]; /* of the edge then (table.h); zeros: the name had none */
    size_t name_len;
    char name[];
} edge_client_t;
ngx_int_t edge_bio_install(void);
/* In the client hello's callback. NULL: no memory. */
edge_client_t *edge_bio_attach(SSL *ssl, const char *name, size_t len);
/* Before that callback, and without TLS: one without a name. */
edge_client_t *edge_client(ngx_connection_t *c);

/* edge_tls.c */
ngx_int_t edge_tls_install(ngx_conf_t *cf);
void edge_tls_free_parsed(void *parsed);
/* Was this connection made to one of the edge's names? */
ngx_uint_t edge_tls_is_of(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* May this request use this connection? NGX_OK, or NGX_DECLINED: 421; where the edge's demands are no longer those of the
 * handshake, it is the connection's last. */
ngx_int_t edge_tls_agrees(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* The name of the handshake may be nobody's by now: then the connection has its last request, too. */
void edge_tls_check_name(ngx_http_request_t *r);

/* edge_vitals.c: of each worker, and there when it has died */
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
/* The master's trial ended early: was it in the middle of an entry? Then that is held against it. */
ngx_uint_t edge_vitals_trial_died(ngx_log_t *log);
/* Around each entry that is applied; entry is all of its bytes. */
trust_t edge_vitals_begin(const ngx_str_t *kind, const ngx_str_t *id, const ngx_str_t *entry,
                          ngx_log_t *log);
void edge_vitals_end(void);

/* edge_state.c: the last configuration on disk (edge_store.h has its records) */
ngx_int_t edge_state_load(ngx_cycle_t *cycle); /* in the master, and the rest in a worker */
void edge_state_try(
    ngx_cycle_t *cycle); /* in the master, before that: whoever dies of it is not the master */
ngx_uint_t edge_state_is_cut(void); /* not all of it could be read */
/* prefix and 32 digits that only edges with this state key have */
void edge_state_name(const char *prefix, char *out, size_t size);
/* A key of 32 bytes for another purpose than the state file: the caller wipes it. */
void edge_state_derive(const char *purpose, u_char *out);
/* Apply a body of entries ([kind, id, document]...) to a table. Those that cannot be applied are answered 503, by
 * themselves, and logged. NGX_OK | NGX_ERROR: it is no such body, and what it says is not in force. */
ngx_int_t edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log);
table_t *edge_table_new(void);
void edge_swap(table_t *fresh);
void edge_retire(table_t *table);

/* edge_helper.c: a process beside each worker, with the bus, the resolver and the state file */
enum { EDGE_RESOLVERS = 64 /* names asked for at once */, EDGE_LINGER_MS = 300 };
/* The worker's ends of its link and of its names (edge_link.h). Its pid, or -1. */
/* How many endpoints, with commas between. NGX_ERROR: an empty one, or too many. */
ngx_int_t edge_helper_copies(const ngx_str_t *endpoints);
pid_t edge_helper_start(int *link, int *names);

/* edge_bus.c: the worker's part of the config log and of the event intake */
ngx_int_t edge_bus_open(ngx_cycle_t *cycle);
void edge_bus_start(ngx_cycle_t *cycle); /* once the table from disk is there */
void edge_bus_stop(void);
/* Before the table is asked for a request or a handshake: a worker that stood still learns what is in force. */
void edge_bus_check_pause(void);
void edge_bus_resolved(void); /* backends have addresses: acknowledgements may go */
void edge_bus_send_events(void);

/* edge_resolve.c: names of backends to addresses, off the request path */
void edge_resolve_start(ngx_cycle_t *cycle);
ngx_int_t edge_resolve_connect(int names, ngx_log_t *log);
void edge_resolve_stop(void);
void edge_resolve_add(backend_t *backend);
/* Where a static backend is right now: its length, 0: its name has no address (yet). */
socklen_t edge_resolve_address(const backend_t *backend, struct sockaddr_storage *out);
void edge_resolve_wait(ngx_msec_t timeout);
/* Names that nobody has asked for before, which come with what is applied from now on until it is NULL. */
typedef struct edge_wait edge_wait_t;
edge_wait_t *edge_resolve_wait_new(void);
void edge_resolve_wait_for(edge_wait_t *wait);
ngx_uint_t edge_resolve_wait_pending(const edge_wait_t *wait); /* NULL: none */
void edge_resolve_wait_drop(edge_wait_t *wait);                /* NULL: nothing */
/* Names of accounts that have held up others for long enough are waited for no more. */
void edge_resolve_release_spent(void);

/* edge_file.c: is it a file of this user alone, and has one name? 0: errno is EPERM. */
ngx_uint_t edge_file_is_own(int file);
/* For reading and writing; one that is not there is made, for this user alone. -1: errno. */
int edge_file_open(const char *path, int flags);

/* edge_memory.c: what the rings lie in */
#define EDGE_MEMORY_PREFIX "postern-events-"
ngx_int_t edge_memory_open(size_t slot_bytes, ngx_uint_t slots, ngx_log_t *log);
void *edge_memory_slot(ngx_uint_t worker); /* NULL: no such slot */
/* In a worker: its slot is this process's as long as it lives. NGX_ERROR: there is none, or another
 * process has it; errno. */
ngx_int_t edge_memory_claim(ngx_uint_t worker);
/* In the master: the slots of workers that are no more go. */
void edge_memory_shrink(void);
size_t edge_memory_slot_bytes(void); /* of which the ring is a part */
const char *edge_memory_name(void);  /* of the file others may read; "": there is none */
off_t edge_memory_position(const void *at);
void edge_memory_remove(void); /* the file's name */
/* The file of another seat, whose master is gone. NGX_OK | NGX_DECLINED: there is none. */
typedef struct {
    u_char *at;
    size_t total, slot_bytes;
    ngx_uint_t slots, seat;
} edge_memory_left_t;
ngx_int_t edge_memory_left_open(ngx_uint_t seat, edge_memory_left_t *left);
void *edge_memory_left_slot(const edge_memory_left_t *left,
                            ngx_uint_t worker);                             /* NULL: no such slot */
void edge_memory_left_close(edge_memory_left_t *left, ngx_uint_t is_empty); /* then it goes */

/* edge_ring.c: events in shared memory, then in a spool file, until acknowledged */
typedef struct {
    uint64_t at;  /* in the ring, or in the spool file */
    uint32_t len; /* 0: whoever reads the header finds the batch */
    uint32_t spooled;
} edge_place_t;

/* A batch in the ring, for readers of edge_memory_name's file: it is there while the number at tail
 * is not beyond at. */
typedef struct {
    off_t body, tail; /* positions in the file */
} edge_shared_t;

typedef struct {
    edge_place_t place;
    edge_shared_t shared; /* of one that is not spooled */
    uint64_t seq;         /* of the last event */
    uint32_t count;
    uint64_t dropped;
    ngx_uint_t oldest;  /* none before it waits for an answer */
    char producer[128]; /* name/worker/boot; proto/WIRE.md */
} edge_batch_t;

ngx_int_t edge_ring_make(ngx_cycle_t *cycle); /* in the master, before it forks */
void edge_ring_end(void);                     /* and when it ends */
ngx_int_t edge_ring_open(ngx_cycle_t *cycle); /* NGX_BUSY: another process has it */
void edge_ring_close(void);
/* A request begins, and ends with or without an event: those between are lost with the worker, and counted by the next. */
void edge_ring_begin(edge_ctx_t *ctx);
void edge_ring_finish(edge_ctx_t *ctx);
/* Where the next event's bytes go, how many may, and whether it is the first of its batch; NULL: ring and spool are full. */
u_char *edge_ring_reserve(size_t *room, ngx_uint_t *first);
/* What was reserved holds an event of len bytes. */
void edge_ring_commit(size_t len);
/* An event that cannot be kept: counted, and told with the next batch. */
void edge_ring_drop(void);
/* Close the open batch when it has events. */
void edge_ring_seal(void);
/* Next batch not sent yet; 0 when none. */
ngx_uint_t edge_ring_next(edge_batch_t *batch);
/* In the helper: a batch's bytes. NGX_DECLINED: they were freed meanwhile. */
ngx_int_t edge_ring_copy(const edge_place_t *place, void *out);
/* The batch of that producer that ends with seq is stored: free it, and in the ring all before it. */
void edge_ring_acknowledge(const char *producer, uint64_t seq);
void edge_ring_resend(void);
ngx_uint_t edge_ring_unsent(void);
typedef struct {
    uint64_t requests, events, dropped, spooled, unacknowledged, revision, ready;
    uint64_t upstreams_denied;
    uint64_t streams_ended;  /* by changes of the configuration */
    uint64_t in_flight;      /* requests that will leave an event */
    uint64_t lost;           /* and those whose worker ended before they did */
    uint64_t config_turn_us; /* the longest that configuration kept a worker from requests */
} edge_counters_t;
edge_counters_t *edge_ring_counters(ngx_uint_t worker); /* NULL: no such slot */
ngx_uint_t edge_ring_workers(void); /* of this edge: their slots are the first */
/* What workers of that number left goes to the spool. NGX_OK: all of it | NGX_AGAIN: more another time,
 * or when there is room. */
void edge_ring_spool_path(ngx_uint_t seat, ngx_uint_t worker, char *out, size_t size);
ngx_int_t edge_ring_adopt_slot(void *at, size_t bytes, ngx_uint_t worker);
ngx_uint_t edge_ring_slot_is_empty(const void *at, size_t bytes);
ngx_int_t edge_ring_adopt_spool(ngx_fd_t file, ngx_uint_t worker, off_t *at);

/* edge_adopt.c: events that workers left that are no more are sent from here; called now and then */
void edge_adopt(void);

/* edge_event.c */
void edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx);
