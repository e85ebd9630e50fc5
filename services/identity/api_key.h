/* API keys: made, hashed, recognised. The token is KSUID_SECRET: the KSUID is the key's id without
 * its prefix, the secret is derived from the master key and the id, so that a creation that is
 * retried after a crash returns the token that the first try made. Only its hash is stored. */
#pragma once

#include "common/crud.h"

int api_key_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                  problem_t *problem);
int api_key_created(crud_t *crud, const json_t *row, json_t *rendered);

/* api_key.authenticate {token} -> {account, actor} */
int on_api_key_authenticate(crud_t *crud, const request_t *request, reply_t *reply);
