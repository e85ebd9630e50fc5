/* A service: one reactor that owns the sockets, and workers that own a database connection each.
 * The reactor passes requests to idle workers and holds a reply that carries a config revision
 * until every live edge worker acknowledged it, or service_hold_ms passed. Waiting occupies no
 * worker. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"
#include "common/resource/way_out.h"
#include "common/schema/service_row.h"
#include "common/store/migrate.h"

#include <czmq.h>

typedef struct verb {
    const char *name;
    /* 0 | code | fault, like crud_call | VERB_WAITS, of crud_fetch or crud_pause. Not in a
     * transaction. */
    int (*run)(crud_t *crud, const request_t *request, reply_t *reply);
} verb_t;

/* What a service does beside its verbs, in the same reactor. */
typedef struct service_part {
    /* Called after the migrations. 0 | fault; *ret_self is set also then, for stop. */
    int (*start)(void **ret_self, zloop_t *loop, const config_t *config);
    /* Called when the reactor has ended. */
    void (*stop)(void **self_p);
    /* As in reactor_spec_t (common/bus/reactor.h). */
    size_t (*metrics)(void *self, char *out, size_t size);
    bool (*is_ready)(void *self, char *why, size_t size);
} service_part_t;

typedef struct service_spec {
    service_id_t id;               /* its row, with a database and requests */
    const migration_t *migrations; /* made by the build: deploy/embed-migrations */
    const verb_t *verbs;           /* ended by a NULL name; may be NULL */
    const setting_t *settings;     /* beside service_settings, ended by a NULL name; may be NULL */
    const service_part_t *part;    /* may be NULL */
    /* What else is deleted when it is over (tidy_args_t of common/store/tidy.h); may be NULL. */
    const char *const *tidy;
    /* A verb that the service sends to itself, and the setting with its period in seconds; may be
     * NULL. */
    const char *periodic, *period;
    /* Does the request keep a worker busy for long, making keys or signing out many people? Less
     * than half of the workers run such requests, whoever sends them (backlog.h); body is encoded
     * as it came on the bus. May be NULL. */
    bool (*is_slow)(const char *verb, const void *body, size_t len);
    /* What crud_fetch makes its requests with: &way_out. NULL: no verb of the service makes any. */
    const way_out_t *way_out;
    /* The log that edges follow has deletions only, of what a snapshot puts in doubt. */
    bool log_only_ends;
    /* The services that crud_ask asks, ended by NULL; setting <name>-rpc says where copies of one
     * are. NULL: none. */
    const char *const *asks;
    /* Once, after the migrations, with a ready connection; may be NULL. 0 | fault. */
    int (*setup)(crud_t *crud, const config_t *config);
} service_spec_t;

/* Parse settings, set up, run until SIGTERM, drain. Returns the exit status. */
int service_main(const service_spec_t *spec, int argc, char **argv);
