/* Backends: what the edge gets of them. */
#include "services/routes/rules.h"

#include <errno.h>
#include <strings.h>

int static_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *tls = json_object_get(row, "tls");

    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:b}", "account_id", json_object_get(row, "account_id"),
                              "address", json_object_get(row, "address"), "tls",
                              json_is_true(json_object_get(tls, "enabled")));
    return *ret_document ? 0 : -ENOMEM;
}

int http_response_backend_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    static const char *const framing[] = {"connection", "content-length", "transfer-encoding",
                                          "date",       "server",         NULL};
    const char *key;
    json_t *value;

    (void)crud;
    (void)old;
    (void)references;
    json_object_foreach(json_object_get(document, "headers"), key, value)
    {
        (void)value;
        for (int i = 0; framing[i]; i++)
            if (!strcasecmp(key, framing[i]))
                problem_add(problem, ERR_BACKEND_RESPONSE, "headers", "%s is set by the edge", key);
    }
    return problem->code;
}

int http_response_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:O}", "body", json_object_get(row, "body"), "headers",
                              json_object_get(row, "headers"), "status_code",
                              json_object_get(row, "status_code"));
    return *ret_document ? 0 : -ENOMEM;
}

int weighted_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O}", "backends", json_object_get(row, "backends"));
    return *ret_document ? 0 : -ENOMEM;
}
