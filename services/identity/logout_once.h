/* A provider's logout messages, tokens of OpenID Connect and LogoutRequests of SAML, count once
 * each: of those with one ID whichever comes first. The same text again, whose answer was lost, is
 * told that it was carried out; another one with its ID is refused. */
#pragma once

#include "common/resource/crud.h"

typedef struct logout_once {
    const char *id, *text; /* SHA-256 in hexadecimal: of the ID and who gave it, and of the text */
    int64_t until_s;       /* remembered until then, and for 10 minutes at least */
} logout_once_t;

/* Was it carried out? 0 | ERR_SIGN_IN_PROVIDER: its ID is another text's | fault. */
int logout_once_find(crud_t *crud, const logout_once_t *self, bool *ret_carried_out);

/* The same in a transaction, before it takes other locks: until that ends nobody else begins with
 * the ID, and if it commits, the ID is this text's. What is not carried out to its end may come
 * again. Results as above. */
int logout_once_claim(crud_t *crud, const logout_once_t *self, bool *ret_carried_out);
