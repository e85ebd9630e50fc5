#include "services/edge/http/proxy_header.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 107, /* of version 1, with its CRLF */
    FIXED = 16,           /* of version 2: signature, command, family, length */
    LOCAL = 0x20,         /* version and command */
    PROXY = 0x21,
    ADDRESSES_V4 = 12, /* two addresses and two ports */
    ADDRESSES_V6 = 36,
    ADDRESSES_UNIX = 216,
    TLV_HEAD = 3 /* type and length */
};

static const uint8_t signature[12] = "\r\n\r\n\0\r\nQUIT\n";

static void set_v4(proxy_header_t *header, const void *address, uint16_t port)
{
    memset(&header->client, 0, sizeof(header->client));
    header->client.v4.sin_family = AF_INET;
    header->client.v4.sin_port = htons(port);
    memcpy(&header->client.v4.sin_addr, address, sizeof(struct in_addr));
    header->client_len = sizeof(struct sockaddr_in);
    header->names_client = true;
}

/* An IPv4-mapped address is the IPv4 address, as everywhere at the edge (CVE-2024-24790). */
static void set_v6(proxy_header_t *header, const void *address, uint16_t port)
{
    struct in6_addr v6;

    memcpy(&v6, address, sizeof(v6));
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        set_v4(header, v6.s6_addr + 12, port);
        return;
    }
    memset(&header->client, 0, sizeof(header->client));
    header->client.v6.sin6_family = AF_INET6;
    header->client.v6.sin6_port = htons(port);
    header->client.v6.sin6_addr = v6;
    header->client_len = sizeof(struct sockaddr_in6);
    header->names_client = true;
}

/* ---- version 1: a line of text ---- */

/* The next word of the line, which ends with a space or with the line: false where there is none,
 * or no room for it. */
static bool take_word(const char **at, const char *end, char *word, size_t size)
{
    const char *from = *at, *to = memchr(from, ' ', (size_t)(end - from));
    size_t len = (size_t)((to ? to : end) - from);

    if (len == 0 || len >= size || memchr(from, '\0', len))
        return false;
    memcpy(word, from, len);
    word[len] = '\0';
    *at = to ? to + 1 : end;
    return true;
}

/* 0 to 65535, without a zero before it. */
static bool parse_port(const char *word, uint16_t *ret_port)
{
    unsigned port = 0;

    if (word[0] == '0' && word[1] != '\0')
        return false;
    for (; *word; word++) {
        if (*word < '0' || *word > '9')
            return false;
        port = port * 10 + (unsigned)(*word - '0');
        if (port > UINT16_MAX)
            return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

/* Source, destination and their ports, and nothing behind them. inet_pton refuses leading zeros,
 * which some parsers read as octal (CVE-2021-29923). */
static bool parse_addresses(int family, const char *at, const char *end, proxy_header_t *header)
{
    char words[4][INET6_ADDRSTRLEN];
    uint8_t source[16], destination[16];
    uint16_t ports[2];

    for (int i = 0; i < 4; i++)
        if ((i && at[-1] != ' ') || !take_word(&at, end, words[i], sizeof(words[i])))
            return false;
    if (at != end || at[-1] == ' ' || inet_pton(family, words[0], source) != 1
        || inet_pton(family, words[1], destination) != 1 || !parse_port(words[2], &ports[0])
        || !parse_port(words[3], &ports[1]))
        return false;
    if (family == AF_INET)
        set_v4(header, source, ports[0]);
    else
        set_v6(header, source, ports[0]);
    return true;
}

static bool begins_with(const char *at, const char *end, const char *text, size_t len)
{
    return (size_t)(end - at) >= len && memcmp(at, text, len) == 0;
}

/* The line behind "PROXY ", without its CRLF. Whatever stands behind UNKNOWN means nothing. */
static bool parse_line(const char *at, const char *end, proxy_header_t *header)
{
    if (begins_with(at, end, "TCP4 ", 5))
        return parse_addresses(AF_INET, at + 5, end, header);
    if (begins_with(at, end, "TCP6 ", 5))
        return parse_addresses(AF_INET6, at + 5, end, header);
    return begins_with(at, end, "UNKNOWN", 7) && (end - at == 7 || at[7] == ' ');
}

static proxy_header_state_t read_line(const uint8_t *data, size_t len, proxy_header_t *header)
{
    const uint8_t *cr = memchr(data, '\r', len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES);
    size_t line;

    if (cr == NULL)
        return len < LINE_MAX_BYTES - 1 ? PROXY_HEADER_CUT : PROXY_HEADER_BROKEN;
    line = (size_t)(cr - data);
    if (line + 2 > LINE_MAX_BYTES)
        return PROXY_HEADER_BROKEN;
    if (line + 1 == len)
        return PROXY_HEADER_CUT;
    if (cr[1] != '\n' || !parse_line((const char *)data + 6, (const char *)cr, header))
        return PROXY_HEADER_BROKEN;
    header->length = line + 2;
    return PROXY_HEADER_WHOLE;
}

/* ---- version 2: binary ---- */

static uint16_t word_at(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

/* Bytes of addresses, by family and transport; -1: a family or transport that a connection over TCP
 * cannot come by. */
static int addresses_of(uint8_t family)
{
    switch (family) {
    case 0x00:
        return 0;
    case 0x11:
        return ADDRESSES_V4;
    case 0x21:
        return ADDRESSES_V6;
    case 0x31:
        return ADDRESSES_UNIX;
    default:
        return -1;
    }
}

/* Nothing of a TLV is used, but each must end where the header does, or before. */
static bool tlvs_fit(const uint8_t *at, size_t len)
{
    while (len > 0) {
        size_t whole = len < TLV_HEAD ? len + 1 : TLV_HEAD + (size_t)word_at(at + 1);

        if (whole > len)
            return false;
        at += whole;
        len -= whole;
    }
    return true;
}

/* The header is there in whole. LOCAL is the load balancer's own connection, such as a health
 * check: whatever it says of addresses means nothing. */
static bool parse_binary(const uint8_t *data, size_t body, proxy_header_t *header)
{
    const uint8_t *at = data + FIXED;
    int addresses = addresses_of(data[13]);

    if (data[12] == LOCAL)
        return true;
    if (addresses < 0 || (size_t)addresses > body)
        return false;
    if (addresses > 0 && !tlvs_fit(at + addresses, body - (size_t)addresses))
        return false;
    if (addresses == ADDRESSES_V4)
        set_v4(header, at, word_at(at + 8));
    else if (addresses == ADDRESSES_V6)
        set_v6(header, at, word_at(at + 32));
    return true;
}

static proxy_header_state_t read_binary(const uint8_t *data, size_t len, proxy_header_t *header)
{
    size_t body;

    if (len > 12 && data[12] != LOCAL && data[12] != PROXY)
        return PROXY_HEADER_BROKEN;
    if (len > 13 && data[12] == PROXY && addresses_of(data[13]) < 0)
        return PROXY_HEADER_BROKEN;
    if (len < FIXED)
        return PROXY_HEADER_CUT;
    body = word_at(data + 14);
    if (body > PROXY_HEADER_MAX - FIXED)
        return PROXY_HEADER_BROKEN;
    if (len - FIXED < body)
        return PROXY_HEADER_CUT;
    header->length = FIXED + body;
    return parse_binary(data, body, header) ? PROXY_HEADER_WHOLE : PROXY_HEADER_BROKEN;
}

/* Do the bytes begin like this, as far as they go? */
static bool agrees(const uint8_t *data, size_t len, const void *begin, size_t begin_len)
{
    return memcmp(data, begin, len < begin_len ? len : begin_len) == 0;
}

proxy_header_state_t proxy_header_read(const uint8_t *data, size_t len, proxy_header_t *ret_header)
{
    proxy_header_t header = {.length = 0};
    proxy_header_state_t state = PROXY_HEADER_CUT;

    if (len == 0)
        return state;
    if (agrees(data, len, signature, sizeof(signature)))
        state = len < sizeof(signature) ? PROXY_HEADER_CUT : read_binary(data, len, &header);
    else if (agrees(data, len, "PROXY ", 6))
        state = len < 6 ? PROXY_HEADER_CUT : read_line(data, len, &header);
    else
        state = PROXY_HEADER_BROKEN;
    if (state == PROXY_HEADER_WHOLE)
        *ret_header = header;
    return state;
}
