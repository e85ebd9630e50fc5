/* The header of the PROXY protocol: what is read does not depend on how it is cut, nor on what follows it, and no byte beside it is
 * read. */
#include "services/edge/http/proxy_header.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_whole(const proxy_header_t *header, size_t size)
{
    check(header->length >= 15 && header->length <= size && header->length <= PROXY_HEADER_MAX);
    if (!header->names_client)
        return;
    if (header->client.any.sa_family == AF_INET)
        check(header->client_len == sizeof(struct sockaddr_in));
    else
        check(header->client.any.sa_family == AF_INET6
              && header->client_len == sizeof(struct sockaddr_in6)
              && !IN6_IS_ADDR_V4MAPPED(&header->client.v6.sin6_addr));
}

/* In memory of its own: ASan sees what is read beside it. */
static proxy_header_state_t read_alone(const uint8_t *data, size_t size, proxy_header_t *header)
{
    uint8_t *copy = malloc(size);
    proxy_header_state_t state;

    memcpy(copy, data, size);
    state = proxy_header_read(copy, size, header);
    free(copy);
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    proxy_header_t whole, part;
    proxy_header_state_t state, before = PROXY_HEADER_CUT;

    if (size == 0)
        return 0;
    state = read_alone(data, size, &whole);
    if (state == PROXY_HEADER_WHOLE)
        check_whole(&whole, size);
    for (size_t len = 1; len < size; len++) {
        proxy_header_state_t now = proxy_header_read(data, len, &part);

        check(before == PROXY_HEADER_CUT || now == before);
        check(now == PROXY_HEADER_CUT || now == state);
        if (now == PROXY_HEADER_WHOLE)
            check(part.length == whole.length && part.names_client == whole.names_client
                  && len >= whole.length);
        before = now;
    }
    return 0;
}
