/* The event service's database side, an actor: one transaction for all batches that came together.
 *
 * A job on the pipe is frames [identity][header][body] repeated; the answer repeats them as
 * [identity][header][body][verdict], verdict "new", "old" (had it before), "early" (an older
 * one is missing: not stored) or "bad" (not a batch). */
#pragma once

#include <czmq.h>

typedef struct store_args {
    const char *database_url;
} store_args_t;

void store_actor(zsock_t *pipe, void *args);
