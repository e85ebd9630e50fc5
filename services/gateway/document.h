/* The JSON object in the body of a request. No sockets, no calls: a thread of its own parses the
 * large ones (documents.h). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { DOCUMENT_MSG = 320 /* bytes of the text that says why a body is refused, with NUL */ };

/* Parse the body. is_module: it may come wrapped as {edge_id, id, module: {...}}, as the TypeScript
 * client sends it, or repeat the path's edge_id and id beside the module's fields; *ret_document is
 * the module alone. 0, and the caller owns *ret_document | ERR_BODY_UNPARSABLE |
 * ERR_BODY_TOO_LARGE, and msg says why | -ENOMEM. */
int document_parse(const char *text, size_t len, bool is_module, json_t **ret_document,
                   char msg[DOCUMENT_MSG]);
