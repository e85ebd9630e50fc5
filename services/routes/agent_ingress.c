/* agent_ingress: stored and checked; agents cannot connect yet. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"

#include <stdio.h>

/* Claim the domain and, for the hostnames of agents, the wildcard below it. */
static int claim_names(crud_t *crud, const json_t *document, problem_t *problem)
{
    const char *id = json_string_value(json_object_get(document, "id"));
    const char *domain = json_string_value(json_object_get(document, "domain"));
    char below[260];
    int r = name_claim(crud, id, domain, "domain", problem);

    if (r || *domain == '*')
        return r;
    snprintf(below, sizeof(below), "*.%s", domain);
    return name_claim(crud, id, below, "domain", problem);
}

static int agent_ingress_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem)
{
    (void)references;
    if (!json_is_null(json_object_get(document, "certificate_management_policy")))
        return problem_add(problem, ERR_CERT_POLICY_UNSUPPORTED, "certificate_management_policy",
                           "this server has no ACME account: leave the field out");
    if (!old) {
        json_object_set_new(document, "ns_targets", json_array());
        json_object_set_new(document, "region_domains", json_array());
    }
    return old ? 0 : claim_names(crud, document, problem);
}

KIND_RULES(agent_ingress, .check = agent_ingress_check);
