/* Service tokens: how machines are let in at routes where people sign in. An edge that has seen one
 * keeps what identity said under the token's hash, and hears of its end as of a session's. */
#pragma once

#include "common/resource/crud.h"

/* service_token.check {hash, sealed} -> {session}: as a session of the token's at the sealed
 * module's route. hash: SHA-256 of the token, in hexadecimal. 0 | ERR_SESSION_GONE: there is none,
 * its time is over, or it is for other routes, and where the module lets none in | what sealed_open
 * answers | ERR_INVALID_FIELD | fault. */
int on_service_token_check(crud_t *crud, const request_t *request, reply_t *reply);

/* service_token.vouch {hash, sealed} -> {jwt, lasts_ms, renew_ms}: what upstreams are told of it,
 * signed, as in session.vouch. Its audience is the id of the sealed module's route, since identity
 * knows no host of it. As service_token.check. */
int on_service_token_vouch(crud_t *crud, const request_t *request, reply_t *reply);
