/* IP policies and their rules: what edges get of them, and what cannot be deleted from a policy
 * that is in use. Each rule is an entry of the config log, so that a change of one costs as much as
 * one; a policy's own entry says that all of its rules are there. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/resource/kind_rules.h"
#include "services/routes/publish.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <stdlib.h>

/* ---- publication ---- */

/* Column published says what edges have been told of a row. Copies of the version before there was
 * one leave it as it is: what they made or changed is found by it. */
static int ip_policy_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                           problem_t *problem)
{
    (void)crud;
    (void)old;
    (void)references;
    if (json_object_set_new(document, "published", json_true()))
        return -ENOMEM;
    return problem->code;
}

static int ip_policy_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O}", "account_id", json_object_get(row, "account_id"));
    return *ret_document ? 0 : -ENOMEM;
}

static int ip_policy_rule_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    (void)crud;
    (void)old;
    (void)references;
    if (json_object_set(document, "published", json_object_get(document, "cidr")))
        return -ENOMEM;
    return problem->code;
}

static int ip_policy_rule_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document =
        json_pack("{s:O, s:O, s:O}", "ip_policy_id", json_object_get(row, "ip_policy_id"), "cidr",
                  json_object_get(row, "cidr"), "action", json_object_get(row, "action"));
    return *ret_document ? 0 : -ENOMEM;
}

/* ---- deletion ---- */

/* A policy of an enforced dashboard restriction keeps at least one rule: without any, nobody could
 * sign in. The lock on the policy makes concurrent deletions of its rules wait for each other. */
static int ip_policy_rule_keep(crud_t *crud, const json_t *row, problem_t *problem)
{
    const char *policy = json_string_value(json_object_get(row, "ip_policy_id"));
    _cleanup_(pgresult_clear) PGresult *locked = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(crud->pg, &locked, "SELECT 1 FROM ip_policy WHERE id = $1 FOR NO KEY UPDATE", 1,
                policy);
    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT r.id FROM ip_restriction r "
                    "WHERE r.account_id = $2 AND r.type = 'dashboard' AND r.enforced "
                    "AND r.ip_policy_ids ? $1 "
                    "AND 1 = (SELECT count(*) FROM "
                    "(SELECT 1 FROM ip_policy_rule WHERE ip_policy_id = $1 LIMIT 2) l)",
                    2, policy, crud->request->account);
    if (r || PQntuples(res) == 0)
        return r;
    return problem_add(
        problem, ERR_LAST_RULE, NULL,
        "it is the only rule of %s, which the enforced dashboard restriction %s uses: add "
        "another rule first, or take the policy from the restriction",
        policy, PQgetvalue(res, 0, 0));
}

/* ---- what a version before did not publish ---- */

/* Rules before policies: without its policy's entry a rule admits nobody. Policies before what
 * restricts by them. */
int ip_policy_publish_missing(crud_t *crud, int64_t *ret_revision)
{
    static const publish_pass_t passes[] = {
        {"SELECT kind, id FROM config_entry e WHERE kind IN ('ip_policy', 'ip_policy_rule', "
         "'ip_restriction') "
         "AND doc IS NOT NULL AND NOT EXISTS (SELECT FROM object o WHERE o.id = e.id) LIMIT "
         "$1::int",
         NULL, NULL},
        {"UPDATE ip_policy_rule t SET published = cidr WHERE id IN (SELECT id FROM ip_policy_rule "
         "WHERE published IS DISTINCT FROM cidr ORDER BY id LIMIT $1::int FOR UPDATE) "
         "RETURNING 'ip_policy_rule', id, to_jsonb(t)",
         ip_policy_rule_publish, NULL},
        {"UPDATE ip_policy t SET published = true WHERE id IN (SELECT id FROM ip_policy "
         "WHERE published IS NULL ORDER BY id LIMIT $1::int FOR UPDATE) "
         "RETURNING 'ip_policy', id, to_jsonb(t)",
         ip_policy_publish, NULL},
        {"UPDATE ip_restriction t SET published = jsonb_build_object('enforced', enforced, "
         "'ip_policy_ids', ip_policy_ids) WHERE id IN (SELECT id FROM ip_restriction "
         "WHERE type = 'endpoints' AND (published->'ip_policy_ids' IS DISTINCT FROM ip_policy_ids "
         "OR (published->>'enforced')::boolean IS DISTINCT FROM enforced) "
         "ORDER BY id LIMIT $1::int FOR UPDATE) RETURNING 'ip_restriction', id, to_jsonb(t)",
         ip_restriction_publish, NULL},
    };
    int count, r;

    r = publish_missing(crud, "ip policies", passes, LEN(passes), &count, ret_revision);
    if (!r && count)
        log_info("told edges of %d IP policies, rules and restrictions that a version before had "
                 "changed",
                 count);
    return r;
}

KIND_RULES(ip_policy, .check = ip_policy_check, .publish = ip_policy_publish);
KIND_RULES(ip_policy_rule, .check = ip_policy_rule_check, .publish = ip_policy_rule_publish,
           .keep = ip_policy_rule_keep);
