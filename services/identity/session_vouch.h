/* What upstreams are told of a session: a signed JWT, which an edge asks for once in a while and
 * cannot make. */
#pragma once

#include "common/resource/crud.h"

/* {hash, route, last_active_ms?} -> {jwt, lasts_ms, renew_ms}: how long it lasts, and when another
 * is to be asked for. Its audience is the host at which the session was made, whatever the edge
 * says. 0 | ERR_INVALID_FIELD | ERR_SESSION_GONE | fault. */
int on_session_vouch(crud_t *crud, const request_t *request, reply_t *reply);

/* Answer {jwt, lasts_ms, renew_ms} of what ends at that moment; 0: never. 0 | fault. */
int vouch_answer(int64_t expires_ms, int64_t now_ms, const char *jwt, reply_t *reply);

/* {} -> {keys}: the text of the JSON Web Key Set that these are verified with. 0 | fault. */
int on_sign_in_keys(crud_t *crud, const request_t *request, reply_t *reply);
