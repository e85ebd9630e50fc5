/* ip_restriction: which addresses may use the API, which is asked here, and which the edges of an
 * account, which get it through the config log. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/log.h"
#include "services/routes/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* Column published says what edges have been told of a row, as in ip_policy.c. */
static int note_published(json_t *document)
{
    json_t *told = json_pack("{s:O, s:O}", "enforced", json_object_get(document, "enforced"),
                             "ip_policy_ids", json_object_get(document, "ip_policy_ids"));

    return told && !json_object_set_new(document, "published", told) ? 0 : -ENOMEM;
}

static int ip_restriction_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    const char *type = json_string_value(json_object_get(document, "type"));

    (void)crud;
    (void)old;
    (void)references;
    if (!strcmp(type, "endpoints"))
        return problem->code ? problem->code : note_published(document);
    if (json_is_true(json_object_get(document, "enforced")) && strcmp(type, "api"))
        problem_add(problem, ERR_RESTRICTION_UNENFORCED, "enforced",
                    "a restriction of type %s cannot be enforced by this server", type);
    return problem->code;
}

/* Also of one that is not enforced: edges say in their logs whom it would deny. */
int ip_restriction_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    if (strcmp(json_string_value(json_object_get(row, "type")), "endpoints") != 0)
        return 0;
    *ret_document = json_pack("{s:O, s:O, s:O}", "account_id", json_object_get(row, "account_id"),
                              "enforced", json_object_get(row, "enforced"), "ip_policy_ids",
                              json_object_get(row, "ip_policy_ids"));
    return *ret_document ? 0 : -ENOMEM;
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

KIND_RULES(ip_restriction, .check = ip_restriction_check, .publish = ip_restriction_publish);
