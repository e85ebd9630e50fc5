/* https_edge: its rules, and what the edge gets of it. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"

#include <errno.h>

static int https_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                            problem_t *problem)
{
    (void)old;
    return hostports_check(crud, document, false, references, problem);
}

static int https_edge_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *tls = json_object_get(row, "tls_termination");
    const json_t *mutual = json_object_get(row, "mutual_tls");

    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:O?}", "account_id", json_object_get(row, "account_id"),
                              "hostports", json_object_get(row, "hostports"), "min_version",
                              tls && json_is_true(json_object_get(tls, "enabled"))
                                  ? json_object_get(tls, "min_version")
                                  : NULL);
    if (!*ret_document)
        return -ENOMEM;
    if (mutual && json_is_true(json_object_get(mutual, "enabled")))
        json_object_set_new(*ret_document, "mutual_tls", json_true());
    return 0;
}

KIND_RULES(https_edge, .check = https_edge_check, .publish = https_edge_publish);
