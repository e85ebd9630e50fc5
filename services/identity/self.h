/* What GET /self answers: the key of the request, its account and its user. */
#pragma once

#include "common/resource/crud.h"

/* self.get {} -> {api_key, account, user}. */
int on_self_get(crud_t *crud, const request_t *request, reply_t *reply);
