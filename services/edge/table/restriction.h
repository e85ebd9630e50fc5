/* IP restrictions of whole accounts, as entries of the config log bring them: whom the policies
 * that one names admit to every edge of its account. An edge leads to its account, so that a
 * request of an account that has none pays for two pointers. No nginx in here. */
#pragma once

#include "services/edge/table/ip_policy.h"
#include "services/edge/table/table.h"

/* There while an edge or a restriction of it is. */
typedef struct table_account {
    char *id;
    size_t uses;           /* edges and restrictions that are this account's */
    claim_t *restrictions; /* the first of them, restriction_t; the API admits one to an account */
} table_account_t;

/* A policy's place in a restriction that names it: a change of the policy concerns the account. */
typedef struct naming {
    claim_t claim; /* on the policy's id; first, so that a claim there is a naming_t */
    table_account_t *account;
} naming_t;

typedef struct restriction {
    claim_t claim; /* among those of its account; first */
    char *id;
    table_account_t *account;
    policy_names_t *names; /* NULL: it is refused */
    naming_t *namings;     /* one for each name */
    bool enforced;         /* else whom it would deny is told, and served */
    bool refused;          /* its entry cannot be applied: nobody knows whom it denies */
} restriction_t;

/* What the restrictions of an account say of a connection, and which one says so. */
typedef struct account_verdict {
    admission_t admission;
    const restriction_t *by; /* NULL: none objects. Beside ADMISSION_ALLOWED one that would, were it
                                enforced. As long as the table does not change */
    const char *policy;      /* as table_admits has it */
    bool enforced;           /* one is: else the verdict is of nobody */
} account_verdict_t;

/* Has the account of this edge a restriction? */
static inline bool edge_has_restriction(const edge_t *edge)
{
    return edge->account && edge->account->restrictions;
}

/* Judge a connection from this address by all restrictions of the account, each of which must admit
 * it. The cost is that of the policies that they name. */
account_verdict_t table_account_admits(const table_t *self, const table_account_t *account,
                                       const struct sockaddr *address);

/* The id of the account that the restriction with this id (len bytes) belongs to, as long as the
 * restriction does not change; NULL: there is no such restriction. */
const char *table_account_of(const table_t *self, const char *restriction, size_t len);

/* The first claim, a naming_t, of restrictions that name the policy; NULL: none does. */
const naming_t *table_namings(const table_t *self, const char *policy, size_t len);
