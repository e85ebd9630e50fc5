/* agent_ingress: stored and checked; agents cannot connect yet. */
#include "services/routes/rules.h"

int agent_ingress_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                        problem_t *problem)
{
    (void)crud;
    (void)references;
    if (!json_is_null(json_object_get(document, "certificate_management_policy")))
        return problem_add(problem, ERR_CERT_POLICY_UNSUPPORTED, "certificate_management_policy",
                           "this server has no ACME account: leave the field out");
    if (!old) {
        json_object_set_new(document, "ns_targets", json_array());
        json_object_set_new(document, "region_domains", json_array());
    }
    return 0;
}
