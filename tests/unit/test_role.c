/* Who may do what on the bus: what the tables say, and what they must never say. */
#include "common/schema/role.h"
#include "common/schema/schema.h"

#include <criterion/criterion.h>
#include <string.h>

static roles_t who_may(const char *service, const char *verb)
{
    roles_t who = ROLE_NOBODY;

    cr_assert(verb_roles(service, verb, &who), "%s", verb);
    return who;
}

/* It is on the internet: with its key one reads the configuration and which sessions ended, sends
 * its events, and carries sign-ins. */
Test(role, an_edge_s_key_opens_the_logs_that_edges_follow_the_intake_and_the_verbs_of_sign_in_only)
{
    static const char *const verbs[] = {
#define VERB(service, name, handler, who, most, shapes) name,
#include "proto/verbs.def"
    };

    for (int id = 0; id < SOCKETS; id++)
        cr_assert_eq((socket_row((socket_id_t)id).who & ROLE_EDGE) != 0,
                     id == SOCKET_ROUTES_LOG || id == SOCKET_IDENTITY_LOG || id == SOCKET_INTAKE
                         || id == SOCKET_IDENTITY_RPC,
                     "socket %d", id);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        roles_t who = ROLE_NOBODY;

        if (verb_roles("identity", verbs[i], &who) && who & ROLE_EDGE)
            cr_assert(!strncmp(verbs[i], "sign_in.", 8) || !strncmp(verbs[i], "session.", 8)
                          || !strncmp(verbs[i], "bearer_token.", 13)
                          || !strcmp(verbs[i], "service_token.check")
                          || !strcmp(verbs[i], "service_token.vouch"),
                      "%s", verbs[i]);
    }
    cr_assert_eq(who_may("identity", "sign_in.redeem"), ROLE_EDGE);
    cr_assert_eq(who_may("identity", "sign_in.tidy"), ROLE_NOBODY);
}

Test(role, how_large_a_request_may_be_is_said_by_the_row_of_its_verb)
{
    cr_assert_eq(verb_bytes("identity", "sign_in.begin"), 512 << 10);
    cr_assert_eq(verb_bytes("identity", "session.end"), 512 << 10);
    cr_assert_eq(verb_bytes("identity", "self.get"), 8 << 10);
    cr_assert_eq(verb_bytes("events", "sign_in.begin"), VERB_BYTES, "another service's");
    cr_assert_eq(verb_bytes("identity", "account.created"), VERB_BYTES, "none");
}

Test(role, accounts_are_made_by_the_command_line_only)
{
    cr_assert_eq(who_may("identity", "account.create"), ROLE_CLI);
    cr_assert_eq(who_may("identity", "api_key.create"), ROLE_CLI | ROLE_GATEWAY);
    cr_assert_eq(who_may("identity", "api_key.delete"), ROLE_GATEWAY);
    cr_assert_eq(who_may("routes", "reserved_domain.renew"), ROLE_NOBODY);
}

Test(role, every_operation_of_every_kind_is_the_gateway_s)
{
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        char verb[128];

        snprintf(verb, sizeof(verb), "%s.get", kind->name);
        cr_assert_eq(who_may(kind->service, verb), ROLE_GATEWAY, "%s", verb);
    }
}

Test(role, a_verb_that_is_none_is_nobody_s)
{
    static const char *const none[] = {
        "", ".", "account", "account.", "no_kind.get", "vault", "lease", "account.create.x"};
    roles_t who;

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        cr_assert_not(verb_roles("identity", none[i], &who), "%s", none[i]);
    cr_assert_not(verb_roles("routes", "api_key.get", &who), "another service's");
}

Test(role, a_watcher_only_watches)
{
    for (int id = 0; id < SOCKETS; id++)
        cr_assert_eq((socket_row((socket_id_t)id).who & ROLE_SUBSCRIBER) != 0,
                     id == SOCKET_PUB || id == SOCKET_EVENTS_RPC);
    cr_assert_eq(who_may("events", "event.missed"), ROLE_CLI | ROLE_SUBSCRIBER);
    cr_assert_eq(who_may("events", "event_log.trim"), ROLE_NOBODY);
    cr_assert_eq(who_may("events", "event_subscription.list"), ROLE_GATEWAY);
}

Test(role, a_producer_speaks_for_itself_only)
{
    cr_assert(role_may_produce(ROLE_EDGE, "one", "traffic", "one/0/1f"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "one", "traffic", "one/0\n1 error events forged"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "one", "traffic", "one/\x1b[31m"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "one", "traffic", "one2/0/1f"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "one", "traffic", "two/0/1f"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "one", "audit", "one/0/1f"));
    cr_assert_not(role_may_produce(ROLE_EDGE, "outbox", "audit", "outbox/routes"));
    cr_assert(role_may_produce(ROLE_ROUTES, "routes", "audit", "outbox/routes"));
    cr_assert_not(role_may_produce(ROLE_ROUTES, "routes", "audit", "outbox/identity"));
    cr_assert_not(role_may_produce(ROLE_ROUTES, "routes", "traffic", "outbox/routes"));
    cr_assert_not(role_may_produce(ROLE_GATEWAY, "gateway", "audit", "outbox/routes"));
    cr_assert_not(role_may_produce(ROLE_NOBODY, "", "traffic", ""));
}

Test(role, a_name_is_a_role_and_perhaps_more)
{
    static const struct {
        const char *text;
        roles_t role; /* ROLE_NOBODY: none */
    } cases[] = {
        {"edge", ROLE_EDGE},
        {"edge@a", ROLE_EDGE},
        {"edge@eu-1.front_2", ROLE_EDGE},
        {"gateway", ROLE_GATEWAY},
        {"", ROLE_NOBODY},
        {"@", ROLE_NOBODY},
        {"edge@", ROLE_NOBODY},
        {"@edge", ROLE_NOBODY},
        {"edge@a/b", ROLE_NOBODY},
        {"edge@a@b", ROLE_NOBODY},
        {"Edge", ROLE_NOBODY},
        {"edge1", ROLE_NOBODY},
        {"admin", ROLE_NOBODY},
        {"edge@../routes", ROLE_NOBODY},
    };
    char text[80] = "edge@";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        roles_t role = ROLE_NOBODY;

        cr_assert_eq(peer_name_check(cases[i].text, strlen(cases[i].text), &role),
                     cases[i].role != ROLE_NOBODY, "%s", cases[i].text);
        cr_assert_eq(role, cases[i].role, "%s", cases[i].text);
    }
    memset(text + 5, 'a', 64);
    cr_assert_not(peer_name_check(text, 69, &(roles_t){0}), "64 letters");
    cr_assert(peer_name_check(text, 68, &(roles_t){0}), "63 letters");
}

Test(role, documents_are_sent_by_whom_some_kind_s_operation_is)
{
    cr_assert(role_has_documents("routes", ROLE_GATEWAY));
    cr_assert(role_has_documents("identity", ROLE_CLI), "api_key.create");
    cr_assert_not(role_has_documents("events", ROLE_CLI));
    cr_assert_not(role_has_documents("events", ROLE_SUBSCRIBER));
    cr_assert_not(role_has_documents("events", ROLE_NOBODY));
    cr_assert_not(role_has_documents("routes", ROLE_EDGE));
    cr_assert_not(role_has_documents("identity", ROLE_EDGE));
}
