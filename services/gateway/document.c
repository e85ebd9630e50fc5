#include "services/gateway/document.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/codec/pack.h"
#include "services/gateway/body.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    /* the bus carries the body inside an object, one level deeper */
    BODY_DEPTH_MAX = PACK_DEPTH_MAX - 1,
    /* bytes of memory for the values of a body: eight times those of the longest one */
    DOCUMENT_MAX = 8 * BODY_MAX
};

/* How deep lists and objects are nested, counted up to limit. */
static int depth_of(const json_t *value, int limit)
{
    const char *key;
    json_t *item;
    size_t i;
    int deepest = 0, depth;

    if (!limit || !(json_is_object(value) || json_is_array(value)))
        return 0;
    json_array_foreach(value, i, item)
    {
        depth = depth_of(item, limit - 1);
        deepest = depth > deepest ? depth : deepest;
    }
    json_object_foreach((json_t *)value, key, item)
    {
        depth = depth_of(item, limit - 1);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

/* Replace a document {edge_id, id, module: {...}} by the module in it. A document that is the
 * module itself may repeat the path's parameters: they are removed. */
static void unwrap_module(json_t **document)
{
    json_t *module = json_object_get(*document, "module");

    json_object_del(*document, "id");
    json_object_del(*document, "edge_id");
    if (json_is_object(module) && json_object_size(*document) == 1) {
        json_incref(module);
        json_decref(*document);
        *document = module;
    }
}

/* Say why a body is no JSON object, in the parser's words unless those quote the body. */
static int refuse_json(const json_t *document, const json_error_t *error, char msg[DOCUMENT_MSG])
{
    if (document)
        snprintf(msg, DOCUMENT_MSG, "The request body is not a JSON object.");
    else
        snprintf(msg, DOCUMENT_MSG, "The request body is not JSON: line %d, column %d: %s",
                 error->line, error->column,
                 strchr(error->text, '\'') ? "syntax error" : error->text);
    return ERR_BODY_UNPARSABLE;
}

int document_parse(const char *text, size_t len, bool is_module, json_t **ret_document,
                   char msg[DOCUMENT_MSG])
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    json_error_t error = {.text = ""};
    bool deep;
    int r;

    memory_json_begin_outside(DOCUMENT_MAX);
    document = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, &error);
    r = memory_json_end_outside();
    if (r == -EMSGSIZE) {
        snprintf(msg, DOCUMENT_MSG, "The request body has too many values.");
        return ERR_BODY_TOO_LARGE;
    }
    if (r)
        return fault(r, "decode the body of a request");
    deep = document ? depth_of(document, BODY_DEPTH_MAX + 1) > BODY_DEPTH_MAX
                    : json_error_code(&error) == json_error_stack_overflow;
    if (deep) {
        snprintf(msg, DOCUMENT_MSG,
                 "The request body is nested too deeply: the limit is %d objects and lists inside "
                 "each other.",
                 BODY_DEPTH_MAX);
        return ERR_BODY_UNPARSABLE;
    }
    if (!json_is_object(document))
        return refuse_json(document, &error, msg);
    if (is_module)
        unwrap_module(&document);
    *ret_document = take(document);
    return 0;
}
