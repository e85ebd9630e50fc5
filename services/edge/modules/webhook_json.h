/* One value of a JSON text (RFC 8259) that a stranger wrote: in time that is linear in its length,
 * without memory. It does not check the whole text; what it finds stands where it says. */
#pragma once

#include "services/edge/modules/webhook.h"

/* The value at path, names of members of objects with a point before each (".a.b"). A member that
 * stands twice, or is not there, is false; so is a text that is no JSON as far as it is read. */
bool webhook_json_find(webhook_text_t json, const char *path, webhook_text_t *out);
/* The same for a string without escapes, or a number: its characters. */
bool webhook_json_plain(webhook_text_t json, const char *path, webhook_text_t *out);
/* Is the value there an array without items? */
bool webhook_json_empty(webhook_text_t json, const char *path);
