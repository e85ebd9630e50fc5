#include "services/edge/table/restriction.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/table_internal.h"

#include <string.h>

/* ---- accounts ---- */

table_account_t *table_join_account(table_t *self, const char *id)
{
    table_account_t *account = strmap_get(self->accounts, id, strlen(id));

    if (!account) {
        account = slab_alloc(sizeof(*account));
        account->id = document_copy(id, strlen(id));
        strmap_put(self->accounts, id, strlen(id), account);
    }
    account->uses++;
    return account;
}

void table_leave_account(table_t *self, table_account_t *account)
{
    if (!account)
        return;
    INVARIANT(account->uses > 0);
    if (--account->uses)
        return;
    INVARIANT(!account->restrictions); /* each of them is a use */
    strmap_del(self->accounts, account->id, strlen(account->id));
    slab_free(account->id);
    slab_free(account);
}

/* ---- restrictions ---- */

/* Let the policies that it names know of it. */
static void claim_policies(table_t *self, restriction_t *restriction)
{
    const policy_names_t *names = restriction->names;

    restriction->namings = slab_alloc(names->count * sizeof(*restriction->namings));
    for (size_t i = 0; i < names->count; i++) {
        restriction->namings[i].claim.id = restriction->id;
        restriction->namings[i].account = restriction->account;
        names_claim(self->restricting, names->ids[i], &restriction->namings[i].claim);
    }
}

/* An entry that does not say whether it is enforced is: so is one whose flag cannot be read. */
static void parse_restriction(table_t *self, restriction_t *restriction,
                              const msgpack_object *document)
{
    bool bad = false, unknown = !document_get(document, "enforced");

    restriction->enforced = document_bool(document, "enforced", &unknown) || unknown;
    restriction->names = policy_names_parse(document, &bad);
    restriction->refused = bad || unknown;
    if (restriction->refused) {
        policy_names_free(restriction->names);
        restriction->names = NULL;
    } else {
        claim_policies(self, restriction);
    }
}

/* The account that a restriction's entry is known to belong to, also where this version does not
 * tell it: a restriction never moves to another. A snapshot asks the table that it takes the place
 * of. NULL: no version that could be read was there. */
static char *restriction_owner(const table_t *self, const char *id, size_t len,
                               const msgpack_object *document, trust_t *trust)
{
    bool bad = false;
    char *owner = *trust < TRUST_NONE ? document_str(document, "account_id", &bad) : NULL;
    const char *known;

    if (owner && *owner && strlen(owner) <= TABLE_ID_MAX)
        return owner;
    slab_free(owner);
    *trust = TRUST_NONE;
    known = table_account_of(self, id, len);
    if (!known && self->before)
        known = table_account_of(self->before, id, len);
    return known ? document_copy(known, strlen(known)) : NULL;
}

static restriction_t *add_restriction(table_t *self, const char *id, size_t len, const char *owner,
                                      const msgpack_object *document, trust_t trust)
{
    restriction_t *restriction = slab_alloc(sizeof(*restriction));

    restriction->id = document_copy(id, len);
    restriction->claim.id = restriction->id;
    restriction->account = table_join_account(self, owner);
    if (trust == TRUST_ALL)
        parse_restriction(self, restriction, document);
    else
        table_refuse_restriction(restriction);
    claim_put(&restriction->account->restrictions, &restriction->claim);
    return restriction;
}

void table_free_restriction(table_t *self, restriction_t *restriction)
{
    for (size_t i = 0; restriction->namings && i < restriction->names->count; i++)
        names_unclaim(self->restricting, restriction->names->ids[i],
                      &restriction->namings[i].claim);
    slab_free(restriction->namings);
    policy_names_free(restriction->names);
    claim_del(&restriction->account->restrictions, &restriction->claim);
    table_leave_account(self, restriction->account);
    slab_free(restriction->id);
    slab_free(restriction);
}

void table_refuse_restriction(restriction_t *restriction)
{
    restriction->refused = restriction->enforced = true;
}

int table_apply_restriction(table_t *self, const char *id, size_t len,
                            const msgpack_object *document, trust_t trust)
{
    char *owner = document ? restriction_owner(self, id, len, document, &trust) : NULL;
    restriction_t *old = strmap_del(self->restrictions, id, len), *restriction = NULL;

    if (old)
        table_free_restriction(self, old);
    if (owner) {
        restriction = add_restriction(self, id, len, owner, document, trust);
        strmap_put(self->restrictions, id, len, restriction);
    }
    slab_free(owner);
    return document && (!restriction || restriction->refused) ? -1 : 0;
}

const char *table_account_of(const table_t *self, const char *restriction, size_t len)
{
    const restriction_t *found = strmap_get(self->restrictions, restriction, len);

    return found ? found->account->id : NULL;
}

const naming_t *table_namings(const table_t *self, const char *policy, size_t len)
{
    return strmap_count(self->restricting) ? strmap_get(self->restricting, policy, len) : NULL;
}

/* ---- a connection ---- */

/* One restriction's word, where it objects and its objection counts for more than the last one. */
static void hear_restriction(const table_t *table, account_verdict_t *verdict,
                             const restriction_t *restriction, const struct sockaddr *address)
{
    const char *policy = NULL;
    admission_t admission = ADMISSION_UNKNOWN;

    if (!restriction->refused)
        admission = table_admits(table, restriction->names, address, &policy);
    verdict->enforced = verdict->enforced || restriction->enforced;
    if (admission == ADMISSION_ALLOWED || (verdict->by && !restriction->enforced))
        return;
    verdict->by = restriction;
    verdict->policy = policy;
    verdict->admission = restriction->enforced ? admission : ADMISSION_ALLOWED;
}

account_verdict_t table_account_admits(const table_t *self, const table_account_t *account,
                                       const struct sockaddr *address)
{
    account_verdict_t verdict = {.admission = ADMISSION_ALLOWED};
    const claim_t *claim = account->restrictions;

    for (; claim && verdict.admission == ADMISSION_ALLOWED; claim = claim->next)
        hear_restriction(self, &verdict, (const restriction_t *)claim, address);
    return verdict;
}
