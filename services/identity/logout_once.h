/* A provider's logout messages, tokens of OpenID Connect and LogoutRequests of SAML, count once
 * each: of those with one ID whichever comes first. The same text again, whose answer was lost, is
 * told that it was carried out; another one with its ID is refused. */
#pragma once

#include "common/resource/crud.h"

typedef struct logout_once {
    const char *id, *text; /* SHA-256 in hexadecimal: of the ID and who gave it, and of the text */
    int64_t until_s;       /* remembered until then, and for 10 minutes at least */
} logout_once_t;

/* Ends some of what the message says, within a transaction, and with the last of it remembers the
 * message as carried out; *ret_more: there is more. */
typedef int logout_some_t(crud_t *crud, const void *ending, reply_t *reply, bool *ret_more);

/* One step of a message: what `some` does, in a transaction of its own. Until that ends nobody else
 * begins with the ID, and if it commits, the ID is this text's. Nothing is done where the message
 * was carried out; what is not carried out to its end may come again. 0 | ERR_SIGN_IN_PROVIDER: its
 * ID is another text's | fault. */
int logout_once_step(crud_t *crud, const logout_once_t *self, logout_some_t *some,
                     const void *ending, reply_t *reply, bool *ret_more);
