/* Questions of this worker's to postern-identity: a verb of proto/verbs.def with a body, and one
 * answer. The rules are asks.c's; here are its clock, and its link to the helper, which speaks to
 * the copies of the service (edge_helper_ask.c). Nothing here waits: who asked is called from the
 * event loop. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <msgpack.h>

#include "services/edge/control/ask_packet.h"   /* ASK_BODY_MAX */
#include "services/edge/control/ask_waits.h"    /* ask_body_t, kinds of questions */
#include "services/edge/control/edge_link.h"

enum {
    ASK_NOBODY = -1,   /* no copy of postern-identity took it and answered */
    ASK_LATE = -2      /* one took it, and there was no answer in time: perhaps it was done */
};

typedef struct {
    int                    code;   /* 0 | ERR_.. of proto/errors.def | ASK_.. */
    const msgpack_object  *body;   /* a map, of an answer with code 0; else NULL */
    const char            *msg;    /* for people, "" where there is none; never NULL */
} ask_answer_t;                    /* all of it is valid until the call returns */

typedef struct asker asker_t;

struct asker {
    /* called once; it may ask again, and free the asker */
    void      (*answered)(asker_t *asker, const ask_answer_t *answer);
    uint64_t    number;   /* of the question that is under way; 0: none */
    char        request[ASK_REQUEST_SIZE];   /* edge_ask_for */
};

/* Whose request it is asked for, in the logs of who answers: edge_ctx_t's request_id, copied. Of a
 * question that several requests wait for the first one's. Without it the question has an id of its
 * own. */
void edge_ask_for(asker_t *asker, const char *request_id);

/* Ask, a question of any kind of asks.h; the asker is set to zero but for answered and request, or
 * was called, or left. body: a map in msgpack, copied, which may end with a text that others have,
 * too, as that of a module: it is not copied, however many wait with it. NGX_OK: answered is
 * called once, never before this returns, and about when the timeout is over at the latest.
 * NGX_DECLINED: nobody can be asked now, or the body is larger than ASK_BODY_MAX. Where too many
 * are under way, of this worker, account or client (asks.h), it waits for its turn; NGX_BUSY: too
 * many wait (ask_waits.h). client: a hash of who has it asked (edge_share_asker of http/); 0:
 * nobody in particular. verb is not copied. A question that was lost on its way to one copy is
 * asked of another one, under the same idempotency key. */
ngx_int_t edge_ask_kind(asker_t *asker, unsigned kind, const char *verb, const ngx_str_t *account,
    uint32_t client, const ask_body_t *body, ngx_msec_t timeout);

/* The same of one that identity answers by itself. */
static inline ngx_int_t
edge_ask(asker_t *asker, const char *verb, const ngx_str_t *account, uint32_t client,
    const void *body, size_t len, ngx_msec_t timeout)
{
    const ask_body_t  whole = { body, len, NULL };

    return edge_ask_kind(asker, 0, verb, account, client, &whole, timeout);
}


/* Is there room for one of that kind, at once or in the queue? Cheaper than to make its body. */
ngx_uint_t edge_ask_has_room(const ngx_str_t *account, uint32_t client, unsigned kind);

/* Nobody is called any more; the asker need not have asked. What was asked may be done still. */
void edge_ask_leave(asker_t *asker);

/* Does a copy of postern-identity answer? */
ngx_uint_t edge_ask_is_there(void);

/* A message of the helper's, LINK_ASK or LINK_ASK_THERE. */
void edge_ask_message(const link_message_t *message);

/* The helper is another one, and has no questions: those that are under way are over. */
void edge_ask_restart(void);
