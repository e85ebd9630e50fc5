#include "services/edge/table/table_internal.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"
#include "services/edge/table/names.h"
#include "services/edge/table/pool.h"
#include "services/edge/table/slab.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 100, WEIGHT_MAX = 10000 };

void backend_release(backend_t *backend)
{
    if (!backend)
        return;
    INVARIANT(backend->refs > 0);
    if (--backend->refs)
        return;
    if (backend->forget_name)
        backend->forget_name(backend);
    if (backend->pool)
        pool_leave(backend->host);
    headers_done(&backend->headers);
    for (size_t i = 0; i < backend->choice_count; i++)
        slab_free(backend->choices[i].id);
    slab_free(backend->choices);
    slab_free(backend->id);
    slab_free(backend->account_id);
    slab_free(backend->host);
    slab_free(backend->body);
    slab_free(backend);
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

    backend->account_id = document_str(document, "account_id", bad);
    backend->tls = document_bool(document, "tls", bad);
    if (host && !*bad) {
        backend->host = document_copy(host, strlen(host));
        if (backend->tls)
            backend->pool = pool_join(backend->host);
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

    if (!members || members->type != MSGPACK_OBJECT_MAP || members->via.map.size > CHOICES_MAX) {
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
        parse(backend, document, &bad);
    }
    if (bad) {
        backend_release(backend);
        backend = NULL;
    }
    if (!backend) {
        backend_release(strmap_del(self->backends, id, len));
        return bad ? -1 : 0;
    }
    if (backend->host && !backend->literal && self->backend_added)
        self->backend_added(backend);
    backend_release(strmap_put(self->backends, id, len, backend));
    return 0;
}

backend_t *table_backend(const table_t *self, const char *id)
{
    backend_t *backend = strmap_get(self->backends, id, strlen(id));

    return backend && !backend->refused ? backend : NULL;
}

backend_t *table_choose(const table_t *self, backend_t *backend, uint32_t number)
{
    size_t i = 0;

    if (!backend || !backend->choices)
        return backend;
    if (!backend->choice_count)
        return NULL;
    number %= backend->choices[backend->choice_count - 1].upto;
    while (number >= backend->choices[i].upto)
        i++;
    INVARIANT(i < backend->choice_count);
    backend = table_backend(self, backend->choices[i].id);
    return backend && backend->choices ? NULL : backend; /* shares are not nested */
}
