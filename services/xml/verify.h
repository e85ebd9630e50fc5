/* The verb saml.verify: a message is what it should be, and says this. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>

/* body as in proto/WIRE.md. 0: *ret_answer is the caller's | ERR_SAML_MESSAGE, ERR_SAML_METADATA,
 * ERR_INVALID_FIELD | -ENOMEM. */
int verify_message(const json_t *body, json_t **ret_answer, problem_t *problem);
