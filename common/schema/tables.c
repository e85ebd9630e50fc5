/* The .def files of this folder as tables in memory, and how to find a row. */
#include "common/base/id.h"
#include "common/schema/schema.h"

#include <string.h>

#define FIELD(...)
#define OBJECT(...)
#define REF(...)
#define REFS(...)
#define BEGIN(type_name) extern const object_type_t type_##type_name;
#define END
#include "proto/types.def"
#undef FIELD
#undef OBJECT
#undef REF
#undef REFS

#define FIELD(name, type, flags, min, max, values, fallback, outcome, meaning)                     \
    {#name, NULL, type, flags, min, max, values, fallback, outcome, meaning, NULL, NULL},
#define OBJECT(name, object, flags, meaning)                                                       \
    {#name,   NULL,           NESTED, flags, 0, 0, NULL, NULL, ERR_INVALID_FIELD,                  \
     meaning, &type_##object, NULL},
#define OBJECTS(name, object, flags, min, max, fallback, meaning)                                  \
    {#name,   NULL,           NESTEDS, flags, min, max, NULL, fallback, ERR_INVALID_FIELD,         \
     meaning, &type_##object, NULL},
#define MEMBERS(name, object, key, max, outcome, meaning)                                          \
    {#name, NULL,    NESTEDS, LISTED | KEEP_EMPTY, 0,   max, #key,                                 \
     "[]",  outcome, meaning, &type_##object,      NULL},
#define REF(name, write_name, flags, kinds, fallback, outcome, meaning)                            \
    {#name, #write_name, REFERENCE, flags, 0, 64, NULL, fallback, outcome, meaning, NULL, kinds},
#define REFS(name, write_name, flags, min, max, kinds, outcome, meaning)                           \
    {#name, #write_name, REFERENCES, flags, min, max, NULL, "[]", outcome, meaning, NULL, kinds},
#define IDS(name, flags, min, max, kinds, outcome, meaning)                                        \
    {#name, NULL, REFERENCES, (flags) | PLAIN, min, max, NULL, "[]", outcome, meaning, NULL, kinds},
#define ID(name, flags, kinds, outcome, meaning)                                                   \
    {#name, NULL, REFERENCE, (flags) | PLAIN, 0, 64, NULL, NULL, outcome, meaning, NULL, kinds},
#define WEIGHTS(name, flags, max, highest, kinds, outcome, meaning)                                \
    {#name, NULL, WEIGHT_MAP, flags, highest, max, NULL, "{}", outcome, meaning, NULL, kinds},
#define KINDS(name, kind, meaning)                                                                 \
    {#name,   NULL, CHILDREN, READ_ONLY | COMPUTED, 0, 0, NULL, NULL, ERR_INVALID_FIELD,           \
     meaning, NULL, #kind},
/* Versions of clang-format differ about this one. */
/* clang-format off */
#define LAST {NULL, NULL, NONE, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL}
/* clang-format on */

#define BEGIN(type_name)                                                                           \
    static const field_t fields_of_##type_name[];                                                  \
    const object_type_t type_##type_name = {#type_name, fields_of_##type_name};                    \
    static const field_t fields_of_##type_name[] = {
#define END                                                                                        \
    LAST                                                                                           \
    }                                                                                              \
    ;
#include "proto/types.def"

/* clang-format off */
#define TABLE(name) static const field_t fields_of_##name[] = {
TABLE(https_edge)
#include "proto/https_edge.def"
LAST };
TABLE(https_edge_route)
#include "proto/https_edge_route.def"
LAST };
TABLE(static_backend)
#include "proto/static_backend.def"
LAST };
TABLE(http_response_backend)
#include "proto/http_response_backend.def"
LAST };
TABLE(ip_policy)
#include "proto/ip_policy.def"
LAST };
TABLE(ip_policy_rule)
#include "proto/ip_policy_rule.def"
LAST };
TABLE(weighted_backend)
#include "proto/weighted_backend.def"
LAST };
TABLE(failover_backend)
#include "proto/failover_backend.def"
LAST };
TABLE(tunnel_group_backend)
#include "proto/tunnel_group_backend.def"
LAST };
TABLE(ip_restriction)
#include "proto/ip_restriction.def"
LAST };
TABLE(reserved_addr)
#include "proto/reserved_addr.def"
LAST };
TABLE(certificate_authority)
#include "proto/certificate_authority.def"
LAST };
TABLE(tcp_edge)
#include "proto/tcp_edge.def"
LAST };
TABLE(tls_edge)
#include "proto/tls_edge.def"
LAST };
TABLE(reserved_domain)
#include "proto/reserved_domain.def"
LAST };
TABLE(tls_certificate)
#include "proto/tls_certificate.def"
LAST };
TABLE(vault)
#include "proto/vault.def"
LAST };
TABLE(secret)
#include "proto/secret.def"
LAST };
TABLE(agent_ingress)
#include "proto/agent_ingress.def"
LAST };
TABLE(endpoint)
#include "proto/endpoint.def"
LAST };
TABLE(tunnel)
#include "proto/tunnel.def"
LAST };
TABLE(tunnel_session)
#include "proto/tunnel_session.def"
LAST };
TABLE(event_destination)
#include "proto/event_destination.def"
LAST };
TABLE(event_subscription)
#include "proto/event_subscription.def"
LAST };
TABLE(application_user)
#include "proto/application_user.def"
LAST };
TABLE(application_session)
#include "proto/application_session.def"
LAST };
TABLE(bot_user)
#include "proto/bot_user.def"
LAST };
TABLE(service_user)
#include "proto/service_user.def"
LAST };
TABLE(credential)
#include "proto/credential.def"
LAST };
TABLE(ssh_credential)
#include "proto/ssh_credential.def"
LAST };
TABLE(ssh_certificate_authority)
#include "proto/ssh_certificate_authority.def"
LAST };
TABLE(ssh_host_certificate)
#include "proto/ssh_host_certificate.def"
LAST };
TABLE(ssh_user_certificate)
#include "proto/ssh_user_certificate.def"
LAST };
TABLE(api_key)
#include "proto/api_key.def"
LAST };
/* clang-format on */

static const kind_t kinds[] = {
#define KIND(name, prefix, service, audit, list_key, path, parent_key, operations)                 \
    {#name,      prefix,     service,                                                              \
     audit,      list_key,   path,                                                                 \
     parent_key, operations, {#name, fields_of_##name}},
#include "proto/kinds.def"
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, {NULL, NULL}},
};

const kind_t *kind_all(void)
{
    return kinds;
}

const kind_t *kind_find(const char *name)
{
    for (const kind_t *kind = kinds; kind->name; kind++)
        if (!strcmp(kind->name, name))
            return kind;
    return NULL;
}

const kind_t *kind_of_id(const char *id)
{
    for (const kind_t *kind = kinds; kind->name; kind++)
        if (id_check(kind->prefix, id))
            return kind;
    return NULL;
}

const field_t *kind_owner(const kind_t *kind)
{
    const field_t *field = kind->type.fields;

    while (field->name && !(field->flags & OWNER))
        field++;
    return field->name ? field : NULL;
}

const field_t *kind_module(const kind_t *kind, const char *name)
{
    const field_t *field = field_find(&kind->type, name);

    return field && field->flags & MODULE ? field : NULL;
}

const field_t *kind_query(const kind_t *kind, const char *name)
{
    for (const field_t *field = kind->type.fields; field->name; field++) {
        size_t len = strlen(field->name);

        if (field->flags & QUERY && !strncmp(field->name, name, len)
            && (!name[len] || !strcmp(name + len, "s")))
            return field;
    }
    return NULL;
}

const field_t *kind_detachable(const kind_t *kind, const char *name)
{
    const field_t *field = kind->type.fields;

    while (field->name && !(field->flags & DETACH && !strcmp(field->name, name)))
        field++;
    return field->name ? field : NULL;
}

bool kind_command(const kind_t *kind, const char *name)
{
    static const struct {
        const char *kind, *name;
    } rows[] = {
#define COMMAND(kind, name, meaning) {#kind, #name},
#include "proto/commands.def"
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].kind, kind->name) && !strcmp(rows[i].name, name))
            return true;
    return false;
}

const field_t *kind_members(const kind_t *kind, const char *name)
{
    const field_t *field = field_find(&kind->type, name);

    return field && field->flags & LISTED ? field : NULL;
}

const char *field_key(const field_t *field)
{
    return field->write_name ? field->write_name : field->name;
}

const field_t *field_find(const object_type_t *type, const char *name)
{
    for (const field_t *field = type->fields; field->name; field++)
        if (!strcmp(field_key(field), name))
            return field;
    return NULL;
}

bool schema_in_list(const char *list, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = list; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (!strncmp(at, text, n) && (at[n] == '|' || !at[n]))
            return true;
    return false;
}
