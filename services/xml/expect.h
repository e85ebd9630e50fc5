/* What a caller says a message has to be. */
#pragma once

#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXPECT_SKEW_MAX_MS = 5 * 60000 };

typedef enum message_kind {
    MESSAGE_RESPONSE,
    MESSAGE_LOGOUT_REQUEST,
    MESSAGE_LOGOUT_RESPONSE
} message_kind_t;

/* Texts are borrowed, and never NULL. */
typedef struct expect {
    message_kind_t kind;
    const char *destination;    /* the URL that the message came to */
    const char *recipient;      /* the URL of the assertion consumer service; of a response only */
    const char *audience;       /* our entity ID; of a response only */
    const char *in_response_to; /* the ID of our request; "" where we made none */
    const char *nameid_format;  /* "", and unspecified: any */
    bool allow_unsolicited, require_authn_statement;
    int64_t now_ms, skew_ms;
} expect_t;

/* Read it from JSON that outlives it. 0 | ERR_INVALID_FIELD. */
int expect_read(expect_t *self, const json_t *from, problem_t *problem);

/* Has a time come, and has an end passed, on a clock that may be wrong by the skew? */
bool expect_has_begun(const expect_t *self, int64_t ms);
bool expect_is_over(const expect_t *self, int64_t ms);

/* The text of a field; "" where it is not there. NULL: it is no text, longer than max bytes, or has
 * a NUL. */
const char *field_text(const json_t *object, const char *name, size_t max);

/* Has the object no field but these? names ends with NULL. The name of one that it has; NULL: none.
 */
const char *field_unknown(const json_t *object, const char *const *names);
