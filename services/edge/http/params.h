/* Parameters of a query or of a form's body (application/x-www-form-urlencoded, WHATWG URL 5.1), as
 * they come from outside. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    PARAMS_MAX = 32,                /* of one request */
    PARAMS_BYTES = 16 * 1024,       /* as they were sent */
    PARAMS_FORM_BYTES = 128 * 1024, /* of a form with a SAML message */
    PARAMS_NAME_MAX = 128
};

/* Not ended by a NUL; without NULs in it, and valid UTF-8. */
typedef struct param {
    const char *name, *value;
    size_t name_len, value_len;
} param_t;

typedef struct params {
    size_t count;
    param_t each[PARAMS_MAX];
} params_t;

/* Read len bytes of text and add them to out, which has the ones before. memory has len bytes, and
 * lives as long as out. 0 | -1: more or longer than the above, a '%' without two digits, a NUL, or
 * no UTF-8; then out is of no use. */
int params_parse(params_t *out, const char *text, size_t len, char *memory);

/* The same of a form that may be larger: of PARAMS_FORM_BYTES. */
int params_parse_form(params_t *out, const char *text, size_t len, char *memory);

/* The parameter with this name. NULL: there is none, or more than one. */
const param_t *params_one(const params_t *self, const char *name);
