#include "services/edge/table/ip_policy.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/table_internal.h"

#include <string.h>

/* ---- policies ---- */

/* Made where there is none: rules may come before their policy. */
static policy_t *make_policy(table_t *self, const char *id, size_t len)
{
    policy_t *policy = strmap_get(self->policies, id, len);

    if (policy)
        return policy;
    policy = slab_alloc(sizeof(*policy));
    policy->id = document_copy(id, len);
    strmap_put(self->policies, id, len, policy);
    return policy;
}

void table_free_policy(policy_t *policy)
{
    INVARIANT(policy->rules == 0 && policy->unread == 0 && networks_is_empty(&policy->networks));
    slab_free(policy->id);
    slab_free(policy);
}

static void drop_policy_if_unused(table_t *self, policy_t *policy)
{
    if (policy->present || policy->rules)
        return;
    strmap_del(self->policies, policy->id, strlen(policy->id));
    table_free_policy(policy);
}

/* That it is there is all that a policy's entry says: its rules are entries of their own. */
int table_apply_policy(table_t *self, const char *id, size_t len, const msgpack_object *document,
                       trust_t trust)
{
    policy_t *policy = make_policy(self, id, len);
    int r;

    policy->present = document != NULL;
    policy->refused = document && trust != TRUST_ALL;
    r = policy->refused ? -1 : 0;
    drop_policy_if_unused(self, policy);
    return r;
}

/* ---- rules ---- */

void table_free_rule(table_t *self, rule_t *rule)
{
    policy_t *policy = rule->policy;

    INVARIANT(policy->rules > 0 && policy->unread >= rule->refused);
    if (rule->placed)
        networks_remove(&policy->networks, &rule->network, rule->deny);
    policy->unread -= rule->refused;
    policy->rules--;
    drop_policy_if_unused(self, policy);
    slab_free(rule);
}

void table_refuse_rule(rule_t *rule)
{
    rule->policy->unread += !rule->refused;
    rule->refused = true;
}

static void parse_rule(rule_t *rule, const msgpack_object *document)
{
    bool bad = false;
    char *cidr = document_str(document, "cidr", &bad),
         *action = document_str(document, "action", &bad);

    rule->deny = action && !strcmp(action, "deny");
    rule->refused = bad || !cidr || !network_parse(cidr, &rule->network)
                    || (!rule->deny && (!action || strcmp(action, "allow")));
    slab_free(cidr);
    slab_free(action);
}

/* The policy that a rule's entry is known to belong to, also where this version does not tell it: a
 * rule never moves to another. A snapshot asks the table that it takes the place of. NULL: no
 * version that could be read was there. */
static char *rule_owner(const table_t *self, const char *id, size_t len,
                        const msgpack_object *document, trust_t *trust)
{
    bool bad = false;
    char *owner = *trust < TRUST_NONE ? document_str(document, "ip_policy_id", &bad) : NULL;
    const char *known;

    if (owner && *owner && strlen(owner) <= TABLE_ID_MAX)
        return owner;
    slab_free(owner);
    *trust = TRUST_NONE;
    known = table_policy_of(self, id, len);
    if (!known && self->before)
        known = table_policy_of(self->before, id, len);
    return known ? document_copy(known, strlen(known)) : NULL;
}

static rule_t *add_rule(table_t *self, const char *owner, const msgpack_object *document,
                        trust_t trust)
{
    rule_t *rule = slab_alloc(sizeof(*rule));

    rule->policy = make_policy(self, owner, strlen(owner));
    rule->policy->rules++;
    if (trust == TRUST_ALL)
        parse_rule(rule, document);
    else
        rule->refused = true;
    rule->policy->unread += rule->refused;
    rule->placed = !rule->refused;
    if (rule->placed)
        networks_add(&rule->policy->networks, &rule->network, rule->deny);
    return rule;
}

int table_apply_rule(table_t *self, const char *id, size_t len, const msgpack_object *document,
                     trust_t trust)
{
    char *owner = document ? rule_owner(self, id, len, document, &trust) : NULL;
    rule_t *old = strmap_del(self->rules, id, len), *rule = NULL;

    if (old)
        table_free_rule(self, old);
    if (owner) {
        rule = add_rule(self, owner, document, trust);
        strmap_put(self->rules, id, len, rule);
    }
    slab_free(owner);
    return document && (!rule || rule->refused) ? -1 : 0;
}

const char *table_policy_of(const table_t *self, const char *rule, size_t len)
{
    const rule_t *found = strmap_get(self->rules, rule, len);

    return found ? found->policy->id : NULL;
}

/* ---- what a route says ---- */

void *policy_names_parse(const msgpack_object *document, bool *bad)
{
    const msgpack_object *ids = document_get(document, "ip_policy_ids");
    static uint64_t numbers;
    policy_names_t *names;

    if (!ids || ids->type != MSGPACK_OBJECT_ARRAY || !ids->via.array.size
        || ids->via.array.size > POLICY_NAMES_MAX) {
        *bad = true;
        return NULL;
    }
    names = slab_alloc(sizeof(*names) + ids->via.array.size * sizeof(names->ids[0]));
    names->number = ++numbers;
    for (uint32_t i = 0; i < ids->via.array.size; i++) {
        char *id = document_text(&ids->via.array.ptr[i], bad);

        if (id)
            names->ids[names->count++] = id;
        if (!id || !*id || strlen(id) > TABLE_ID_MAX)
            *bad = true;
    }
    return names;
}

void policy_names_free(void *config)
{
    policy_names_t *names = config;

    for (size_t i = 0; names && i < names->count; i++)
        slab_free(names->ids[i]);
    slab_free(names);
}

unsigned policy_names_entries(const void *config, const char **ids)
{
    const policy_names_t *names = config;

    if (names->count > POLICY_ENTRIES_MAX) {
        ids[0] = POLICY_ANY;
        return 1;
    }
    ids[0] = names->ids[0];
    if (names->count < 2 || !strcmp(ids[0], names->ids[1]))
        return 1;
    ids[1] = names->ids[1];
    return 2;
}

/* ---- a connection ---- */

/* by: the place of *ret_policy's id among the names; -1: NULL. */
typedef struct {
    admission_t admission;
    int by;
} verdict_t;

/* from NULL: of what has no address. */
static verdict_t judge_policies(const table_t *self, const policy_names_t *names,
                                const network_t *from)
{
    verdict_t verdict = {ADMISSION_DENIED, -1};
    bool allowed = false;

    for (size_t i = 0; i < names->count; i++) {
        const policy_t *policy = strmap_get(self->policies, names->ids[i], strlen(names->ids[i]));
        unsigned found;

        if (!policy || !policy->present || policy->refused || policy->unread)
            return (verdict_t){ADMISSION_UNKNOWN, (int)i};
        found = from ? networks_find(&policy->networks, from) : 0;
        if (found & NETWORKS_DENY && verdict.by < 0)
            verdict.by = (int)i;
        allowed = allowed || found;
    }
    if (allowed && verdict.by < 0)
        verdict.admission = ADMISSION_ALLOWED;
    return verdict;
}

/* Verdicts of late, each in the one place that its key gives it. All that a verdict depends on is
 * compared: nothing has to be told that a policy, a route or a table is gone. */
enum { KEPT = 4096 };

static struct {
    uint64_t version; /* of the table's policies */
    uint64_t number;  /* of the names; 0: nothing is kept here */
    network_t from;
    verdict_t verdict;
} kept[KEPT];

static size_t place_of(const policy_names_t *names, const network_t *from)
{
    uint64_t h = (from->high ^ from->low ^ names->number) * 0x9e3779b97f4a7c15u;

    return (h >> 32) % KEPT;
}

static bool is_same_network(const network_t *a, const network_t *b)
{
    return a->high == b->high && a->low == b->low && a->bits == b->bits && a->v6 == b->v6;
}

static verdict_t judge_or_recall(const table_t *self, const policy_names_t *names,
                                 const network_t *from)
{
    size_t at = place_of(names, from);

    if (!names->number)
        return judge_policies(self, names, from);
    if (kept[at].version != self->policies_version || kept[at].number != names->number
        || !is_same_network(&kept[at].from, from)) {
        kept[at].verdict = judge_policies(self, names, from);
        kept[at].version = self->policies_version;
        kept[at].number = names->number;
        kept[at].from = *from;
    }
    return kept[at].verdict;
}

admission_t table_admits(const table_t *self, const policy_names_t *names,
                         const struct sockaddr *address, const char **ret_policy)
{
    network_t from;
    verdict_t verdict = network_of(address, &from) ? judge_or_recall(self, names, &from)
                                                   : judge_policies(self, names, NULL);

    *ret_policy = verdict.by < 0 ? NULL : names->ids[verdict.by];
    return verdict.admission;
}
