/* Named formats of the tables' values column: @hostport, @match, ... */
#pragma once

#include "common/base/err.h"

#include <stddef.h>

/* Check (and for some formats normalise into out, size bytes) one string.
 * 0 | outcome, with the fault's text in *ret_text. An unknown format is our mistake: -EINVAL. */
int format_check(const char *format, int outcome, const char *value, char *out, size_t size,
                 const char **ret_text);

/* Header name and value as RFC 9110 5.1 and 5.5 allow; NULL when fine, else the fault. */
const char *format_header_name(const char *name);
/* Key (not empty) or value of a label. */
const char *format_label(const char *text, int is_key);
/* Value of a header, see format_header_name. */
const char *format_header_value(const char *value);
