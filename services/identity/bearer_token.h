/* JWTs of a route's issuer that requests bring (RFC 9068): how programs are let in that get their
 * tokens of the identity provider. Nothing of them is stored: an edge that has seen one keeps what
 * identity said of it for a while, under its hash. */
#pragma once

#include "common/resource/crud.h"

/* bearer_token.check {token, sealed} -> {session, now_ms}: as a session of whoever has the token,
 * at the sealed module's route. 0 | ERR_SESSION_GONE: it is not good there, or the module lets none
 * in | ERR_SIGN_IN_DENIED: the module's rules do not admit who has it | ERR_SIGN_IN_UNAVAILABLE:
 * the issuer's keys cannot be had | what sealed_open answers | ERR_INVALID_FIELD | VERB_WAITS |
 * fault. */
int on_bearer_token_check(crud_t *crud, const request_t *request, reply_t *reply);

/* bearer_token.vouch {token, sealed} -> {jwt, lasts_ms, renew_ms}: what upstreams are told of it,
 * signed, as in session.vouch. Its audience is the id of the sealed module's route. As
 * bearer_token.check. */
int on_bearer_token_vouch(crud_t *crud, const request_t *request, reply_t *reply);
