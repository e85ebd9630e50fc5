/* API keys: their owner, and whose key a token is. */
#pragma once

#include "common/resource/crud.h"

/* api_key.authenticate {token} -> {account, actor}. 0 | ERR_AUTH_* | fault. */
int on_api_key_authenticate(crud_t *crud, const request_t *request, reply_t *reply);
