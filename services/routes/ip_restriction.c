/* ip_restriction: which addresses may use the API. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/log.h"
#include "services/routes/rules.h"

#include <arpa/inet.h>
#include <string.h>

static int ip_restriction_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    const char *type = json_string_value(json_object_get(document, "type"));

    (void)crud;
    (void)old;
    (void)references;
    if (json_is_true(json_object_get(document, "enforced")) && strcmp(type, "api"))
        problem_add(problem, ERR_RESTRICTION_UNENFORCED, "enforced",
                    "a restriction of type %s cannot be enforced by this server", type);
    return problem->code;
}

/* An address is allowed when a rule of the restriction's policies allows it and none denies it. */
static int is_allowed(crud_t *crud, const char *account, const char *ip, bool *ret_allowed,
                      bool *ret_enforced)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    *ret_allowed = true;
    r = pg_exec(crud->pg, &res,
                "SELECT r.enforced, coalesce(bool_or(l.action = 'allow'), false) "
                "                   AND NOT coalesce(bool_or(l.action = 'deny'), false) "
                "FROM ip_restriction r "
                "CROSS JOIN jsonb_array_elements_text(r.ip_policy_ids) p (id) "
                "LEFT JOIN ip_policy_rule l ON l.ip_policy_id = p.id AND $2::inet <<= "
                /* a network of IPv4-mapped addresses is that of IPv4, as at the edge */
                "CASE WHEN l.cidr::inet <<= '::ffff:0:0/96'::inet "
                "THEN (replace(host(l.cidr::inet), '::ffff:', '') || '/' "
                "|| masklen(l.cidr::inet) - 96)::inet ELSE l.cidr::inet END "
                "WHERE r.account_id = $1 AND r.type = 'api' GROUP BY r.id",
                2, account, ip);
    if (r || PQntuples(res) == 0)
        return r;
    *ret_enforced = *PQgetvalue(res, 0, 0) == 't';
    *ret_allowed = *PQgetvalue(res, 0, 1) == 't';
    return 0;
}

int on_ip_restriction_admit(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *ip = json_string_value(json_object_get(request->body, "ip"));
    unsigned char bytes[16];
    bool allowed, enforced = false;
    int r;

    (void)reply;
    if (!ip || (inet_pton(AF_INET, ip, bytes) != 1 && inet_pton(AF_INET6, ip, bytes) != 1))
        return ERR_IP_NOT_ALLOWED;
    r = is_allowed(crud, request->account, ip, &allowed, &enforced);
    if (r || allowed)
        return r;
    log_warn("ip=%s account=%s the IP restriction of the API %s", ip, request->account,
             enforced ? "refused it" : "would refuse it: it is not enforced");
    return enforced ? ERR_IP_NOT_ALLOWED : 0;
}

KIND_RULES(ip_restriction, .check = ip_restriction_check);
