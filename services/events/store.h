/* The event service's database side, an actor: one transaction for all batches that came together.
 *
 * A job on the pipe is frames [identity][header][body] repeated; the answer repeats them as
 * [identity][header][body][verdict][numbers], verdict "new", "old" (had all of it before), "early" (an older
 * one is missing: not stored), "bad" (not a batch, or one that the database takes from nobody) or "stop" (the process ends, it was not stored). numbers: an int64_t for
 * each event, what it is published under (topics.h).
 *
 * ["listeners"][JSON: {prefix: how many}] says who listens; the answer is "noted", or "again" when it is not. */
#pragma once

#include <czmq.h>

typedef struct store_args {
    const char *database_url, *pub;
} store_args_t;

/* For how long nothing could be stored; 0: it can. */
int64_t store_failing_ms(void);

void store_actor(zsock_t *pipe, void *args);
