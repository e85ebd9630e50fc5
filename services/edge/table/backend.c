#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/pool.h"
#include "services/edge/table/retired.h"
#include "services/edge/table/slab.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 100, WEIGHT_MAX = 10000 };

void backend_release(backend_t *backend)
{
    if (!backend)
        return;
    INVARIANT(backend->refs > 0);
    if (--backend->refs)
        return;
    retired_forget(&backend->version);
    if (backend->forget_name)
        backend->forget_name(backend);
    if (backend->pool)
        pool_leave(backend->account_id, backend->tls ? backend->host : NULL);
    headers_done(&backend->headers);
    for (size_t i = 0; i < backend->choice_count; i++)
        slab_free(backend->choices[i].id);
    slab_free(backend->choices);
    for (size_t i = 0; i < backend->member_count; i++)
        slab_free(backend->members[i]);
    slab_free(backend->members);
    slab_free(backend->id);
    slab_free(backend->account_id);
    slab_free(backend->host);
    slab_free(backend->body);
    slab_free(backend);
}

void backend_retire(backend_t *backend)
{
    retired_add(&backend->version,
                &(retired_entry_t){RETIRED_BACKEND, backend->id, backend->account_id});
}

void table_let_go_backend(backend_t *backend)
{
    if (backend && backend->refs > 1)
        backend_retire(backend);
    backend_release(backend);
}

static void set_literal(backend_t *backend)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&backend->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&backend->address;

    if (inet_pton(AF_INET, backend->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(backend->port);
        backend->address_len = sizeof(*v4);
    } else if (inet_pton(AF_INET6, backend->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(backend->port);
        backend->address_len = sizeof(*v6);
    }
    backend->literal = backend->address_len > 0;
}

/* host:port, or [address]:port; *ret_port. NULL: neither. */
static char *split_address(char *address, uint16_t *ret_port)
{
    char *colon = strrchr(address, ':'), *end;
    unsigned long port;

    if (!colon || colon[1] < '0' || colon[1] > '9')
        return NULL;
    port = strtoul(colon + 1, &end, 10);
    if (*end || port < 1 || port > UINT16_MAX)
        return NULL;
    *ret_port = (uint16_t)port;
    *colon = '\0';
    if (address[0] == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        address++;
    }
    return names_is_host(address) ? address : NULL;
}

void backend_parse_static(backend_t *backend, const msgpack_object *document, bool *bad)
{
    char *address = document_str(document, "address", bad);
    const char *host = address ? split_address(address, &backend->port) : NULL;

    backend->tls = document_bool(document, "tls", bad);
    if (host && !*bad) {
        backend->host = document_copy(host, strlen(host));
        backend->pool = pool_join(backend->account_id, backend->tls ? backend->host : NULL);
        set_literal(backend);
    } else {
        *bad = true;
    }
    slab_free(address);
}

void backend_parse_response(backend_t *backend, const msgpack_object *document, bool *bad)
{
    backend->http_response = true;
    backend->status = document_number(document, "status_code", 200, 599, 200, bad);
    backend->body = document_str(document, "body", bad);
    backend->body_len = backend->body ? strlen(backend->body) : 0;
    headers_parse(&backend->headers, document_get(document, "headers"), NULL, bad);
}

void backend_parse_weighted(backend_t *backend, const msgpack_object *document, bool *bad)
{
    const msgpack_object *members = document_get(document, "backends");
    uint32_t sum = 0;

    if (!members || members->type != MSGPACK_OBJECT_MAP || members->via.map.size > MEMBERS_MAX) {
        *bad = true;
        return;
    }
    backend->choices = slab_alloc((members->via.map.size + 1) * sizeof(*backend->choices));
    for (uint32_t i = 0; i < members->via.map.size; i++) {
        const msgpack_object_kv *pair = &members->via.map.ptr[i];
        choice_t *choice = &backend->choices[backend->choice_count];

        if (pair->val.type != MSGPACK_OBJECT_POSITIVE_INTEGER || pair->val.via.u64 > WEIGHT_MAX
            || pair->key.type != MSGPACK_OBJECT_STR) {
            *bad = true;
            return;
        }
        if (!pair->val.via.u64)
            continue;
        choice->id = document_text(&pair->key, bad);
        if (!choice->id)
            return;
        choice->upto = sum += (uint32_t)pair->val.via.u64;
        backend->choice_count++;
    }
}

void backend_parse_failover(backend_t *backend, const msgpack_object *document, bool *bad)
{
    const msgpack_object *members = document_get(document, "backends");

    if (!members || members->type != MSGPACK_OBJECT_ARRAY
        || members->via.array.size > MEMBERS_MAX) {
        *bad = true;
        return;
    }
    backend->members = slab_alloc((members->via.array.size + 1) * sizeof(*backend->members));
    for (uint32_t i = 0; i < members->via.array.size; i++) {
        char *id = NULL;

        if (members->via.array.ptr[i].type == MSGPACK_OBJECT_STR)
            id = document_text(&members->via.array.ptr[i], bad);
        if (!id) {
            *bad = true;
            return;
        }
        backend->members[backend->member_count++] = id;
    }
}

/* One that cannot be applied is not there: its routes answer 503, and so does its share of a
 * weighted one. */
int table_apply_backend(table_t *self, const char *id, size_t len, const msgpack_object *document,
                        trust_t trust, backend_parse_t *parse)
{
    backend_t *backend = NULL;
    bool bad = document && trust != TRUST_ALL;

    if (document && !bad) {
        backend = slab_alloc(sizeof(*backend));
        backend->refs = 1;
        backend->id = document_copy(id, len);
        backend->version.bytes = RETIRED_BASE + (uint32_t)retired_weight(document);
        backend->account_id = document_str(document, "account_id", &bad);
        bad = bad || (backend->account_id && strlen(backend->account_id) > TABLE_ID_MAX);
        parse(backend, document, &bad);
    }
    if (bad) {
        backend_release(backend);
        backend = NULL;
    }
    if (!backend) {
        table_let_go_backend(strmap_del(self->backends, id, len));
        return bad ? -1 : 0;
    }
    if (backend->host && !backend->literal && self->backend_added)
        self->backend_added(backend);
    table_let_go_backend(strmap_put(self->backends, id, len, backend));
    return 0;
}

backend_t *table_backend(const table_t *self, const char *id)
{
    backend_t *backend = strmap_get(self->backends, id, strlen(id));

    return backend && !backend->refused ? backend : NULL;
}

/* Which member request number is for. Of the first n requests floor(n * left / total) go to the
 * members in the left half, left and total being sums of weights, and so on within each half. So a
 * number alone says it, without knowing who had the requests before it; and in any row of requests
 * each halving is wrong by less than one request. */
static size_t choice_of(const choice_t *choices, size_t count, uint64_t number)
{
    uint64_t total = choices[count - 1].upto, base = 0;
    size_t first = 0, end = count;

    number %= total; /* then it starts over: at most a million, so that no product overflows */
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;
        uint64_t left = choices[middle - 1].upto - base, before = number * left / total;

        if ((number + 1) * left / total > before) {
            end = middle;
            total = left;
            number = before;
        } else {
            first = middle;
            base = choices[middle - 1].upto;
            total -= left;
            number -= before;
        }
    }
    return first;
}

backend_t *table_choose(const table_t *self, backend_t *backend, uint64_t number)
{
    if (!backend || backend->members)
        return NULL;
    if (!backend->choices)
        return backend;
    if (!backend->choice_count)
        return NULL;
    backend = table_backend(
        self, backend->choices[choice_of(backend->choices, backend->choice_count, number)].id);
    return backend && (backend->choices || backend->members) ? NULL : backend; /* not nested */
}

bool backend_shares(const backend_t *weighted, const char *id)
{
    for (size_t i = 0; i < weighted->choice_count; i++)
        if (!strcmp(weighted->choices[i].id, id))
            return true;
    return false;
}

bool table_leads_to(const table_t *self, const backend_t *backend, const char *id,
                    backend_t **ret_through)
{
    backend_t *through = NULL;

    *ret_through = NULL;
    if (!backend->members)
        return backend->choices ? backend_shares(backend, id) : !strcmp(backend->id, id);
    for (size_t i = 0; i < backend->member_count; i++) {
        backend_t *member = table_backend(self, backend->members[i]);

        if (member && member->choices)
            through = !through && backend_shares(member, id) ? member : through;
        else if (member && !strcmp(member->id, id))
            return true;
    }
    *ret_through = through;
    return through != NULL;
}

uint64_t backend_key(backend_t *backend)
{
    crypto_generichash_state hash;
    unsigned char out[crypto_generichash_BYTES_MIN];
    unsigned char where[3] = {(unsigned char)(backend->port >> 8), (unsigned char)backend->port,
                              backend->tls};

    if (backend->key)
        return backend->key;
    crypto_generichash_init(&hash, NULL, 0, sizeof(out));
    crypto_generichash_update(&hash, (unsigned char *)backend->id, strlen(backend->id) + 1);
    if (backend->host) {
        crypto_generichash_update(&hash, (unsigned char *)backend->host, strlen(backend->host) + 1);
        crypto_generichash_update(&hash, where, sizeof(where));
    }
    crypto_generichash_final(&hash, out, sizeof(out));
    memcpy(&backend->key, out, sizeof(backend->key));
    backend->key |= 1ull << 63;
    return backend->key;
}
