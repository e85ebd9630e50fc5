/* The parts of a change that need no database: preconditions, the fingerprint of a request (for
 * idempotency), the document after an update, conflicts, and the audit event. */
#pragma once

#include "common/base/secret.h"
#include "common/bus/bus.h"
#include "common/schema/schema.h"

enum { CHANGE_ETAG = 40, CHANGE_FINGERPRINT = 65 };

/* The ETag of a rendered object, a strong validator (RFC 9110 8.8.1), equal in all copies of the
 * service. If memory runs out, out is unchanged. */
void change_etag(const json_t *rendered, char out[CHANGE_ETAG]);

/* Compare If-Match (RFC 9110 13.1.1; NULL: absent) with the object as it is now; rendered NULL: it
 * does not exist. 0 | ERR_PRECONDITION_FAILED. */
int change_check_precondition(const char *if_match, const json_t *rendered, problem_t *problem);

/* A keyed hash of what the request asks for, in a canonical form: the operation and those parts of
 * the body that name the object and its new values. Not the path, which has several spellings, nor
 * a precondition, which does not change what is done. Keyed, because bodies hold secrets. 0 |
 * -ENOMEM. */
int change_fingerprint(const secret_key_t *key, const request_t *request,
                       char out[CHANGE_FINGERPRINT]);

/* Does the patch change enough for its kind? 0 | ERR_EMPTY_UPDATE. */
int change_check_patch(const kind_t *kind, const json_t *patch, problem_t *problem);

/* The document after an update: fields of the patch replace those of old as a whole. A new
 * reference; NULL: out of memory. */
json_t *change_apply(const json_t *old, const json_t *patch);

/* The error for a violated unique constraint. A code | -EIO: not a constraint of a kind. */
int change_conflict(const char *constraint, problem_t *problem);

/* The audit event of this id and time: who did what to the object, without its secrets. action:
 * created, updated, deleted. A new reference; NULL: out of memory. */
json_t *change_event(const kind_t *kind, const char *action, const char *id, const char *at,
                     const request_t *request, const json_t *rendered);

/* Take the object's children out of its audit event, which has null in their place then: each of
 * them has events of its own. False: the kind has none. */
bool change_leave_out_children(const kind_t *kind, json_t *event);
