/* The hash under which a token is known: nobody keeps the token itself. No nginx in here. */
#pragma once

#include "services/edge/modules/sessions.h"

#include <stdbool.h>
#include <stddef.h>

/* Write the SHA-256 of a token of len bytes. False: there is none, and out is not to be used. */
bool token_hash(const void *token, size_t len, unsigned char out[SESSION_HASH_BYTES]);
