/* The verbs of a sign-in, which edges call (proto/WIRE.md): from the first click at a route's
 * host to the session. Each checks all that it is given anew: an edge only carries. */
#pragma once

#include "common/resource/crud.h"

/* {sealed, host, target, nonce?, force?} -> {location, nonce}. force: as somebody else. Stores
 * nothing. 0 | ERR_INVALID_FIELD and what sealed_open answers | ERR_SIGN_IN_UNAVAILABLE | fault. */
int on_sign_in_begin(crud_t *crud, const request_t *request, reply_t *reply);

/* {sealed, ticket, cookie?} -> {location or post, cookie}: the provider's URL, or a form for it.
 * Stores nothing. As begin, and ERR_SIGN_IN_STATE | ERR_SIGN_IN_PROVIDER. */
int on_sign_in_login(crud_t *crud, const request_t *request, reply_t *reply);

/* {sealed, state, params, cookie?, ip, user_agent, host?, home?} -> {location, cookie}. Stores one
 * row, of a code that lasts 30 s, once the provider has vouched and the rules admit; of saml also
 * one that says it has. host, home: of saml, where the route is, for a response that nobody asked
 * for. As login, and ERR_SIGN_IN_DENIED. */
int on_sign_in_callback(crud_t *crud, const request_t *request, reply_t *reply);

/* {sealed, code, nonce, host, ip, user_agent, old?} -> {token, target, session}. 0 |
 * ERR_SIGN_IN_CODE: and it is gone, if it was there | ERR_SIGN_IN_DENIED | fault. */
int on_sign_in_redeem(crud_t *crud, const request_t *request, reply_t *reply);

/* {sealed, token} -> {}: a provider's logout token. Its sessions are over when this is answered. 0
 * | ERR_INVALID_FIELD and what sealed_open answers | ERR_SIGN_IN_PROVIDER: it is not good |
 * ERR_SIGN_IN_UNAVAILABLE | fault. */
int on_sign_in_logout(crud_t *crud, const request_t *request, reply_t *reply);
/* {sealed, query} or {sealed, params: {name: [values]}} -> {location or post}: a message of SAML's
 * single logout. Of a LogoutRequest the sessions that it names are over when this is answered. 0 |
 * ERR_NOT_FOUND: the route has another module | what sealed_open answers | ERR_SIGN_IN_PROVIDER:
 * the message is not good | ERR_SIGN_IN_UNAVAILABLE | fault. */
int on_sign_in_saml_logout(crud_t *crud, const request_t *request, reply_t *reply);
/* {sealed} -> {metadata}: of a route with saml, as a service provider. 0 | ERR_NOT_FOUND: it has
 * another module | as begin. */
int on_sign_in_metadata(crud_t *crud, const request_t *request, reply_t *reply);

/* {} -> {codes, sessions, gone}: delete what is over, some of it, and end sessions whose route or
 * module is gone. 0 | VERB_WAITS | fault. */
int on_sign_in_tidy(crud_t *crud, const request_t *request, reply_t *reply);
