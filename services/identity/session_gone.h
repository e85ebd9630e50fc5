/* Sessions of routes and modules that are there no more: of those that were deleted, whenever that
 * was, and whoever was away then. postern-routes is asked, place by place; as long as it does not
 * answer, nothing ends. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"

/* The setting that says how often; once, before requests. */
void session_gone_setup(const config_t *config);

/* A part of sign_in.tidy, which may wait: ask about the places of all sessions, some at a time, and
 * end the sessions of those that are gone, with their reason in the event. Only where that is due.
 * *ret_count: how many ended. 0 | VERB_WAITS | fault. */
int session_gone_tidy(crud_t *crud, reply_t *reply, int64_t *ret_count);
