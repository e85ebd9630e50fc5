/* A thread that parses large bodies and encodes them for the bus: that takes tens of milliseconds
 * for a body of 1 MiB, in which the loop would serve nobody. Accounts take turns, so that one
 * account's bodies, however many, are one other's wait. All functions are called by the loop's
 * thread. */
#pragma once

#include "services/gateway/body.h"
#include "services/gateway/document.h"

#include <czmq.h>
#include <msgpack.h>

/* What became of a body, under the name that it was put in with. code as of document_parse; 0:
 * packed is the request's body for the bus, which on_parsed may move out. */
typedef struct parsed {
    char name[64];
    int code;
    char msg[DOCUMENT_MSG];
    msgpack_sbuffer packed;
} parsed_t;

typedef void (*on_parsed_fn)(void *context, parsed_t *parsed);

typedef struct documents documents_t;

/* Start the thread; on_parsed is called in the loop, once for each body, in any order. 0 |
 * fault. */
int documents_new(documents_t **ret_self, zloop_t *loop, on_parsed_fn on_parsed, void *context);
/* End the thread. Bodies that it has not parsed are wiped, and on_parsed is not called for them. */
void documents_destroy(documents_t **self_p);

/* Parse the body, which is taken, and encode the object rest with the document as its field
 * "document"; rest is taken too, and nobody else may have a reference to any of its values. */
void documents_put(documents_t *self, const char *account, const char *name, body_t *body,
                   bool is_module, json_t **rest);

/* Bodies that are not parsed yet. */
size_t documents_waiting(const documents_t *self);
