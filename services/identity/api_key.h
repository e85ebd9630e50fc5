/* API keys: their owner, and whose key a token is. */
#pragma once

#include "common/resource/crud.h"

int api_key_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                  problem_t *problem);

/* api_key.authenticate {token} -> {account, actor}. 0 | ERR_AUTH_* | fault. */
int on_api_key_authenticate(crud_t *crud, const request_t *request, reply_t *reply);
