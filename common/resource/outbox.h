/* Publisher of a service's outbox table: reads committed audit events, sends them to the event
 * service, deletes acknowledged ones and moves refused ones to another table. Delivery is at least
 * once; the event service removes duplicates by id. One of several copies of the service does this
 * at a time, and also tidies up the schema. Runs as an actor, because SQL blocks. */
#pragma once

#include "common/store/tidy.h"

#include <czmq.h>

typedef struct outbox_args {
    const char *database_url, *schema, *events_endpoint, *curve_dir;
    tidy_args_t tidy;
    long tidy_seconds;
} outbox_args_t;

/* Events that the event service refused, which are kept in table outbox_refused, as of the last
 * look. */
int64_t outbox_refused(void);

/* zactor function; args is an outbox_args_t that outlives the actor's start. */
void outbox_actor(zsock_t *pipe, void *args);
