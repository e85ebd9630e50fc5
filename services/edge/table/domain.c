#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/slab.h"

#include <openssl/crypto.h>
#include <string.h>

void table_free_domain(const table_t *self, domain_t *domain)
{
    if (!domain)
        return;
    if (domain->parsed && self->free_parsed)
        self->free_parsed(domain->parsed);
    if (domain->key_pem)
        OPENSSL_cleanse(domain->key_pem, strlen(domain->key_pem));
    slab_free(domain->id);
    slab_free(domain->name);
    slab_free(domain->certificate_id);
    slab_free(domain->chain_pem);
    slab_free(domain->key_pem);
    slab_free(domain);
}

/* A name that has no pair keeps it from the wildcard above: nobody shakes hands for it. */
static void forget_pair(domain_t *domain)
{
    slab_free(domain->certificate_id);
    slab_free(domain->chain_pem);
    if (domain->key_pem)
        OPENSSL_cleanse(domain->key_pem, strlen(domain->key_pem));
    slab_free(domain->key_pem);
    domain->certificate_id = domain->chain_pem = domain->key_pem = NULL;
}

static void parse_pair(domain_t *domain, const msgpack_object *document, bool *bad)
{
    domain->certificate_id = document_str(document, "certificate_id", bad);
    domain->chain_pem = document_str(document, "certificate_pem", bad);
    domain->key_pem = document_str(document, "private_key_pem", bad);
    if (!domain->certificate_id && (!domain->chain_pem || !domain->key_pem))
        *bad = true;
    if (*bad)
        forget_pair(domain);
}

/* NULL: nothing of it can be told. */
static domain_t *parse_domain(const table_t *self, const char *id, size_t len,
                              const msgpack_object *document, bool named, trust_t trust, bool *bad)
{
    domain_t *domain = slab_alloc(sizeof(*domain));

    domain->id = document_copy(id, len);
    domain->claim.id = domain->id;
    if (named && trust <= TRUST_PLACE)
        domain->name = document_str(document, "domain", bad);
    if (domain->name)
        names_fold(domain->name, strlen(domain->name));
    if (trust == TRUST_ALL)
        parse_pair(domain, document, bad);
    else
        *bad = true;
    if (named && !names_is_host(domain->name))
        *bad = true;
    if (*bad && !names_is_host(domain->name))
        table_free_domain(self, domain), domain = NULL;
    return domain;
}

/* A domain by its id; a certificate is a domain without a name. */
int table_apply_pair(table_t *self, strmap_t *map, const char *id, size_t len,
                     const msgpack_object *document, bool named, trust_t trust)
{
    bool bad = false;
    domain_t *domain = document ? parse_domain(self, id, len, document, named, trust, &bad) : NULL;
    domain_t *old = strmap_del(map, id, len);

    if (old && old->name)
        names_unclaim(self->domain_names, old->name, &old->claim);
    table_free_domain(self, old);
    if (domain) {
        old = strmap_put(map, id, len, domain);
        INVARIANT(!old);
    }
    if (domain && named)
        names_claim(self->domain_names, domain->name, &domain->claim);
    return bad ? -1 : 0;
}
