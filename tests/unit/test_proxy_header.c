#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "services/edge/http/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4        "\x01\x02\x03\x04\x05\x06\x07\x08\x04\xd2\x01\xbb"
#define V6                                                                                         \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x04\xd2" \
    "\x01\xbb"
#define MAPPED                                                                                     \
    "\0\0\0\0\0\0\0\0\0\0\xff\xff\x01\x02\x03\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x05\x06\x07\x08\x04" \
    "\xd2\x01\xbb"

struct header_case {
    char what[48];
    char bytes[300];
    size_t len;
    char client[64]; /* address and port; empty: it names nobody */
};

#define CASE(what, bytes, client)                                                                  \
    {                                                                                              \
        what, bytes, sizeof(bytes) - 1, client                                                     \
    }

static void client_text(const proxy_header_t *header, char *text, size_t size)
{
    char address[INET6_ADDRSTRLEN] = "";
    unsigned port = 0;

    if (!header->names_client) {
        text[0] = '\0';
        return;
    }
    if (header->client.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &header->client.v4.sin_addr, address, sizeof(address));
        port = ntohs(header->client.v4.sin_port);
        cr_assert_eq(header->client_len, sizeof(struct sockaddr_in));
    } else {
        inet_ntop(AF_INET6, &header->client.v6.sin6_addr, address, sizeof(address));
        port = ntohs(header->client.v6.sin6_port);
        cr_assert_eq(header->client_len, sizeof(struct sockaddr_in6));
    }
    snprintf(text, size, "%s %u", address, port);
}

ParameterizedTestParameters(proxy_header, names_whose_connection_it_is)
{
    static struct header_case cases[] = {
        CASE("IPv4", "PROXY TCP4 1.2.3.4 5.6.7.8 1234 443\r\n", "1.2.3.4 1234"),
        CASE("IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 1234 443\r\n", "2001:db8::1 1234"),
        CASE("IPv4 in IPv6", "PROXY TCP6 ::ffff:1.2.3.4 ::1 0 65535\r\n", "1.2.3.4 0"),
        CASE("the longest of IPv6",
             "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
             "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
             "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535"),
        CASE("unknown", "PROXY UNKNOWN\r\n", ""),
        CASE("unknown, with what means nothing", "PROXY UNKNOWN 1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("binary IPv4", SIGNATURE "\x21\x11\0\x0c" V4, "1.2.3.4 1234"),
        CASE("binary IPv6", SIGNATURE "\x21\x21\0\x24" V6, "2001:db8::1 1234"),
        CASE("binary IPv4 in IPv6", SIGNATURE "\x21\x21\0\x24" MAPPED, "1.2.3.4 1234"),
        CASE("binary with TLVs", SIGNATURE "\x21\x11\0\x14" V4 "\x04\0\x02no\x01\0\0",
             "1.2.3.4 1234"),
        CASE("binary local", SIGNATURE "\x20\0\0\0", ""),
        CASE("binary local, with addresses", SIGNATURE "\x20\x11\0\x0c" V4, ""),
        CASE("binary local, with anything", SIGNATURE "\x20\xff\0\x03\x01\x02\x03", ""),
        CASE("binary, of no family", SIGNATURE "\x21\0\0\x03\x01\xff\xff", ""),
    };
    return cr_make_param_array(struct header_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* Whole is only all of it, also where the client's first bytes came with it. */
ParameterizedTest(struct header_case *one, proxy_header, names_whose_connection_it_is)
{
    proxy_header_t header;
    char text[96];
    uint8_t bytes[512];

    memcpy(bytes, one->bytes, one->len);
    memset(bytes + one->len, 0x16, 9);
    for (size_t more = 0; more < 10; more += 9) {
        memset(&header, 0xff, sizeof(header));
        cr_assert_eq(proxy_header_read(bytes, one->len + more, &header), PROXY_HEADER_WHOLE, "%s",
                     one->what);
        cr_assert_eq(header.length, one->len, "%s: %zu bytes", one->what, header.length);
        client_text(&header, text, sizeof(text));
        cr_assert_str_eq(text, one->client, "%s", one->what);
    }
    for (size_t len = 0; len < one->len; len++)
        cr_assert_eq(proxy_header_read(bytes, len, &header), PROXY_HEADER_CUT, "%s: %zu bytes",
                     one->what, len);
}

ParameterizedTestParameters(proxy_header, is_broken)
{
    static struct header_case cases[] = {
        CASE("a handshake", "\x16\x03\x01\x02\0", ""),
        CASE("a request", "GET / HTTP/1.1\r\n\r\n", ""),
        CASE("lower case", "proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("another word", "PROXIES", ""),
        CASE("no family", "PROXY \r\n", ""),
        CASE("another family", "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("a family that goes on", "PROXY UNKNOWNS\r\n", ""),
        CASE("IPv6 as IPv4", "PROXY TCP4 ::1 ::1 1 2\r\n", ""),
        CASE("IPv4 as IPv6", "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("octal", "PROXY TCP4 010.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("three numbers", "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", ""),
        CASE("a zone", "PROXY TCP6 fe80::1%lo ::1 1 2\r\n", ""),
        CASE("a name", "PROXY TCP4 localhost 5.6.7.8 1 2\r\n", ""),
        CASE("a NUL in an address", "PROXY TCP4 1.2.3.4\0x 5.6.7.8 1 2\r\n", ""),
        CASE("a NUL in a port", "PROXY TCP4 1.2.3.4 5.6.7.8 1\0x 2\r\n", ""),
        CASE("no destination", "PROXY TCP4 1.2.3.4\r\n", ""),
        CASE("a destination that is none", "PROXY TCP4 1.2.3.4 5.6.7.256 1 2\r\n", ""),
        CASE("no ports", "PROXY TCP4 1.2.3.4 5.6.7.8\r\n", ""),
        CASE("one port", "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", ""),
        CASE("an empty port", "PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n", ""),
        CASE("a port too large", "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", ""),
        CASE("a port with a zero before it", "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", ""),
        CASE("a port with a sign", "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", ""),
        CASE("a word too many", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", ""),
        CASE("a space at the end", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", ""),
        CASE("two spaces", "PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("a tab", "PROXY TCP4\t1.2.3.4 5.6.7.8 1 2\r\n", ""),
        CASE("CR alone", "PROXY UNKNOWN\rX", ""),
        CASE("no end in 107 bytes",
             "PROXY UNKNOWN 12345678901234567890123456789012345678901234567890123456789012345678901"
             "234567890123456789012345678",
             ""),
        CASE("version 1 in binary", SIGNATURE "\x11\x11\0\x0c" V4, ""),
        CASE("version 3", SIGNATURE "\x31", ""),
        CASE("another command", SIGNATURE "\x22", ""),
        CASE("another family in binary", SIGNATURE "\x21\x41", ""),
        CASE("UDP over IPv4", SIGNATURE "\x21\x12\0\x0c" V4, ""),
        CASE("UDP over IPv6", SIGNATURE "\x21\x22\0\x24" V6, ""),
        CASE("no transport", SIGNATURE "\x21\x10\0\x0c" V4, ""),
        CASE("shorter than its addresses", SIGNATURE "\x21\x11\0\x0b" V4, ""),
        CASE("addresses of IPv4 as IPv6", SIGNATURE "\x21\x21\0\x0c" V4, ""),
        CASE("no addresses", SIGNATURE "\x21\x11\0\0", ""),
        CASE("a path that is too short", SIGNATURE "\x21\x31\0\x0c" V4, ""),
        CASE("a TLV that is no more than a type", SIGNATURE "\x21\x11\0\x0d" V4 "\x04", ""),
        CASE("a TLV beyond the header", SIGNATURE "\x21\x11\0\x10" V4 "\x04\0\x02n", ""),
        CASE("more than is taken", SIGNATURE "\x21\x11\x0f\xf1", ""),
        CASE("65,535 bytes", SIGNATURE "\x20\0\xff\xff", ""),
    };
    return cr_make_param_array(struct header_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct header_case *one, proxy_header, is_broken)
{
    proxy_header_t header = {.length = 7};

    cr_assert_eq(proxy_header_read((uint8_t *)one->bytes, one->len, &header), PROXY_HEADER_BROKEN,
                 "%s", one->what);
    cr_assert_eq(header.length, 7, "nothing was set");
}

Test(proxy_header, names_nobody_for_a_socket_of_a_path)
{
    uint8_t bytes[16 + 216] = SIGNATURE "\x21\x31\0\xd8/run/lb.sock";
    proxy_header_t header;

    cr_assert_eq(proxy_header_read(bytes, sizeof(bytes), &header), PROXY_HEADER_WHOLE);
    cr_assert_eq(header.length, sizeof(bytes));
    cr_assert_not(header.names_client);
}

Test(proxy_header, may_have_4096_bytes)
{
    static uint8_t bytes[PROXY_HEADER_MAX] = SIGNATURE "\x21\x11\x0f\xf0" V4 "\xe0";
    proxy_header_t header;

    bytes[29] = (PROXY_HEADER_MAX - 16 - 12 - 3) >> 8;
    bytes[30] = (PROXY_HEADER_MAX - 16 - 12 - 3) & 255;
    cr_assert_eq(proxy_header_read(bytes, sizeof(bytes) - 1, &header), PROXY_HEADER_CUT);
    cr_assert_eq(proxy_header_read(bytes, sizeof(bytes), &header), PROXY_HEADER_WHOLE);
    cr_assert_eq(header.length, PROXY_HEADER_MAX);
    cr_assert(header.names_client);
}
