/* Create, get, list, update and delete of any kind in proto/kinds.def, each in one transaction with
 * its references, audit event, config log entries and idempotency record. What a kind adds to
 * that: kind_rules.h. Tables used: common/resource/schema.sql and the kind's own. */
#pragma once

#include "common/bus/bus.h"
#include "common/base/id.h"
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

/* Load one row of any kind with its secrets opened. 0 | ERR_NOT_FOUND | fault. */
int crud_load(crud_t *self, const kind_t *kind, const char *account, const char *id, bool lock,
              json_t **ret_row);
