/* The database side of the event service, an actor: one transaction for all batches that came
 * together.
 *
 * A job on the pipe is frames [identity][header][body], repeated; the answer repeats them as
 * [identity][header][body][verdict][numbers]. verdict: "new"; "old": stored before; "early": an
 * older batch is missing, not stored; "bad": not a batch, or one that the database refuses; "stop":
 * not stored, because the process ends. numbers: an int64_t for each event, the number that it is
 * published under (topics.h).
 *
 * ["listeners"][JSON: {prefix: how many}] notes who subscribes; the answer is "noted", or "again"
 * when it could not be written. */
#pragma once

#include <czmq.h>

typedef struct store_args {
    const char *database_url, *pub;
} store_args_t;

/* For how many ms nothing could be stored; 0: storing works. */
int64_t store_failing_ms(void);

/* The thread: args is a store_args_t. Ends with the actor. */
void store_actor(zsock_t *pipe, void *args);
