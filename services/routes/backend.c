/* Backends: their rules, and what the edge gets of them. */
#include "common/base/address.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/log.h"
#include "services/routes/publish.h"
#include "services/routes/rules.h"
#include "services/routes/header_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static address_rules_t *addresses; /* made before the first thread starts, and never changed */

int backend_setup(const config_t *config)
{
    _cleanup_(free_mem) char *bad = NULL;
    int r;

    address_rules_destroy(&addresses);
    r = address_rules_new(&addresses, config_str(config, "own-sockets"),
                          config_str(config, "denied-upstreams"),
                          config_str(config, "allowed-upstreams"), &bad);
    if (bad)
        log_error("own-sockets, denied-upstreams, allowed-upstreams: '%s' is neither an address or "
                  "network, with or without ports, nor (in own-sockets) a port",
                  bad);
    return r ? fault(r, "read which upstreams are allowed") : 0;
}

/* An address in any spelling is judged here. What a name resolves to is judged by the edge, before
 * it connects. */
static int static_backend_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    const char *address = json_string_value(json_object_get(document, "address")), *colon, *why;
    struct sockaddr_storage literal;
    char host[256];

    (void)crud;
    (void)old;
    (void)references;
    colon = address ? strrchr(address, ':') : NULL;
    if (!colon)
        return problem->code; /* that rule has reported it */
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (address_parse(host, (uint16_t)strtoul(colon + 1, NULL, 10), &literal)
        && (why = address_fault(addresses, (struct sockaddr *)&literal)))
        problem_add(problem, ERR_BACKEND_DENIED, "address", "%s: a backend must not lead there",
                    why);
    return problem->code;
}

static int static_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *tls = json_object_get(row, "tls");

    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:b}", "account_id", json_object_get(row, "account_id"),
                              "address", json_object_get(row, "address"), "tls",
                              json_is_true(json_object_get(tls, "enabled")));
    return *ret_document ? 0 : -ENOMEM;
}

static int http_response_backend_check(crud_t *crud, json_t *document, const json_t *old,
                                       json_t *references, problem_t *problem)
{
    const char *key, *why;
    json_t *value;

    (void)crud;
    (void)old;
    (void)references;
    json_object_foreach(json_object_get(document, "headers"), key, value)
    {
        (void)value;
        why = !strcasecmp(key, "date") || !strcasecmp(key, "server") ? "is set by the edge"
                                                                     : header_name_refusal(key);
        if (why)
            problem_add(problem, ERR_BACKEND_RESPONSE, "headers", "%s %s", key, why);
    }
    return problem->code;
}

static int http_response_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O, s:O, s:O}", "body", json_object_get(row, "body"), "headers",
                              json_object_get(row, "headers"), "status_code",
                              json_object_get(row, "status_code"));
    return *ret_document ? 0 : -ENOMEM;
}

static int weighted_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O}", "backends", json_object_get(row, "backends"));
    return *ret_document ? 0 : -ENOMEM;
}

/* Column published says what edges have been told. Copies of the version before there was one leave
 * it as it is: what they made or changed is found by it. */
static int failover_backend_check(crud_t *crud, json_t *document, const json_t *old,
                                  json_t *references, problem_t *problem)
{
    json_t *backends = json_object_get(document, "backends");

    (void)crud;
    (void)old;
    (void)references;
    if (backends && json_object_set(document, "published", backends))
        return -ENOMEM;
    return problem->code;
}

static int failover_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document = json_pack("{s:O}", "backends", json_object_get(row, "backends"));
    return *ret_document ? 0 : -ENOMEM;
}

int failover_backend_publish_missing(crud_t *crud, int64_t *ret_revision)
{
    static const publish_pass_t passes[] = {
        {"SELECT kind, id FROM config_entry e WHERE kind = 'failover_backend' AND doc IS NOT NULL "
         "AND NOT EXISTS (SELECT FROM object o WHERE o.id = e.id) LIMIT $1::int",
         NULL, NULL},
        {"UPDATE failover_backend t SET published = backends WHERE id IN "
         "(SELECT id FROM failover_backend WHERE published IS DISTINCT FROM backends "
         "ORDER BY id LIMIT $1::int FOR UPDATE) RETURNING 'failover_backend', id, to_jsonb(t)",
         failover_backend_publish, NULL},
    };
    int count, r;

    r = publish_missing(crud, "failover backends", passes, LEN(passes), &count, ret_revision);
    if (!r && count)
        log_info("told edges of %d failover backends that a version before had changed", count);
    return r;
}

KIND_RULES(static_backend, .check = static_backend_check, .publish = static_backend_publish);
KIND_RULES(http_response_backend, .check = http_response_backend_check,
           .publish = http_response_backend_publish);
KIND_RULES(weighted_backend, .publish = weighted_backend_publish);
KIND_RULES(failover_backend, .check = failover_backend_check, .publish = failover_backend_publish);
