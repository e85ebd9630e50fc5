/* Create, get, list, update and delete of any kind in proto/kinds.def, each in one transaction with
 * its references, audit event, config log entries and idempotency record. What a kind adds to
 * that: kind_rules.h. Tables used: common/resource/schema.sql and the kind's own. */
#pragma once

#include "common/bus/bus.h"
#include "common/base/id.h"
#include "common/resource/waits.h"
#include "common/store/pg.h"
#include "common/base/secret.h"
#include "common/schema/schema.h"

typedef struct crud {
    pg_t *pg;
    const secret_key_t *key;
    const char *base_url; /* of the API, for uris in answers */
    const char *service;
    long object_limit;        /* of one kind in an account; 0: none */
    long config_limit;        /* bytes of an account in the config log; 0: none */
    bool config_log;          /* the schema has config_head and config_entry */
    const request_t *request; /* the call in progress */
    char request_key[160];    /* account/id of it */
    char fingerprint[65];     /* of what it asks for */
    char object[ID_MAX];      /* the object that it makes or changes */
    json_t
        *entries; /* "kind id" to sealed document or null: what crud_end writes to the config log */
    bool revokes; /* the call writes a kind with ADMITS: gateways must drop their caches */
    bool changes; /* the call began a transaction */
    wait_t *wait; /* of the request, for verbs that wait */
} crud_t;

/* Run "<kind>.<operation>". 0 | code | fault; PG_DOWN and PG_AGAIN may be retried as they are. */
int crud_call(crud_t *self, const kind_t *kind, const char *operation, const request_t *request,
              reply_t *reply);

/* The time as the API writes it, whole seconds of UTC. */
void crud_now(char out[32]);

/* Begin a transaction: the BEGIN goes with its first statement. 0 | fault. */
int crud_begin(crud_t *self);

/* For rules and timers, inside a transaction: write or (document NULL) remove a config entry. */
int crud_publish(crud_t *self, const char *kind, const char *id, const json_t *document);

/* End it: r 0 closes its config entries under one new revision and commits, anything else rolls
 * back and is returned. *ret_revision 0 when nothing was published. */
int crud_end(crud_t *self, int r, int64_t *ret_revision);

/* For verbs of a service's own: wait, without a worker, for the answer to an HTTP request that
 * is made for the sake of request->owner, which must be an account that the verb knows for sure
 * and not what its caller says. The handler returns what this returns; when the answer is there
 * it is run again, perhaps on another thread, and crud_resumed gives it *state_p, which is taken
 * over. free_state frees the state, also where the handler is never run again: the request's
 * deadline passed, too many wait, or the service stops. The request's timeout is shortened so
 * that some of the deadline is left; with less than least_ms for it, it is not made, and ends with
 * OUTBOUND_TIMEOUT. An answer that came is never lost: the handler is run with it even where the
 * deadline has passed. Not inside a transaction. VERB_WAITS | -EINVAL: nothing is taken over. */
int crud_fetch(crud_t *self, const outbound_request_t *request, unsigned least_ms, void **state_p,
               void (*free_state)(void **state_p));
/* The same for the answer of the service that service_spec_t.asks names: what its verb says to this
 * body, which is taken over in any case; timeout_ms is shortened, too. */
int crud_ask(crud_t *self, const char *owner, const char *verb, json_t *body, unsigned timeout_ms,
             void **state_p, void (*free_state)(void **state_p));
/* The same for a while. */
int crud_pause(crud_t *self, const char *owner, unsigned ms, void **state_p,
               void (*free_state)(void **state_p));
/* The same between two parts of work, for others to have their turn: what is begun is not refused,
 * however many wait. */
int crud_go_on(crud_t *self, const char *owner, void **state_p, void (*free_state)(void **state_p));
/* How much the state holds that the handler leaves with the next crud_fetch or crud_pause, about:
 * what waits is bounded by that, too (waits.h). */
void crud_weigh(crud_t *self, size_t bytes);
/* The state that the handler left, borrowed; NULL: this is its first run. *ret_answer: what came,
 * valid until the handler returns, and the same in each try of this run; NULL: it paused. */
void *crud_resumed(crud_t *self, const wait_answer_t **ret_answer);

/* For verbs of a service's own, inside a transaction: make an object of the account as a call
 * would that no caller makes, with its audit event, for which request has the actor. document:
 * all that its row has but account_id and created_at, which are added, and id, if it has none.
 * The caller owns *ret_row, as crud_load's. 0 | ERR_LIMIT_EXCEEDED, ERR_NOT_FOUND: its parent is
 * gone | PG_DUPLICATE | fault. */
int crud_add(crud_t *self, const kind_t *kind, json_t *document, problem_t *problem,
             json_t **ret_row);
/* The same: delete one, with its children and all their audit events. 0 | ERR_NOT_FOUND | a code of
 * the kind's rules | fault. */
int crud_remove(crud_t *self, const kind_t *kind, const char *id, problem_t *problem);

/* The same: apply the patch to one, old, that crud_load gave locked: rules, references, audit
 * event, what edges get. *ret_rendered is as the API shows it now. 0 | a code: see reply->problem |
 * fault. */
int crud_change_row(crud_t *self, const kind_t *kind, const json_t *old, const json_t *patch,
                    reply_t *reply, json_t **ret_rendered);

/* Load one row of any kind with its secrets opened. 0 | ERR_NOT_FOUND | fault. */
int crud_load(crud_t *self, const kind_t *kind, const char *account, const char *id, bool lock,
              json_t **ret_row);
