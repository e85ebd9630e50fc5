#include "services/gateway/framing.h"
#include "common/base/err.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

struct head_case {
    char text[200];
    size_t nul; /* where a NUL goes; 0: nowhere */
    int want;
};

static int parse(const char *text, size_t nul, head_t *ret_head, char *copy)
{
    size_t len = strlen(text), at = 0, end = 0;
    const char *why;
    int r;

    memcpy(copy, text, len + 1);
    if (nul)
        copy[nul] = '\0';
    r = framing_scan(copy, len, &at, &end, &why);
    return r ? r : end ? framing_parse(copy, end, ret_head, &why) : -1;
}

#define GET  "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

ParameterizedTestParameters(framing, is_one_request_for_every_reader)
{
    static struct head_case cases[] = {
        {GET HOST "\r\n", 0, 0},
        {"GET / HTTP/1.0\r\n\r\n", 0, 0},
        {GET "Host: a.example:80\r\nX: \xc3\xa9\t1\r\n\r\n", 0, 0},
        {GET "Host: [::1]:80\r\n\r\n", 0, 0},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n", 0, 0},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n", 0, 0},
        {GET HOST "\r", 0, -1},
        {GET HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: 5, 5\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: +5\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: 0x5\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length:\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: 9999999999999999999\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Transfer-Encoding: identity\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0,
         ERR_MALFORMED},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, ERR_MALFORMED},
        {GET "\r\n", 0, ERR_MALFORMED},
        {GET HOST HOST "\r\n", 0, ERR_MALFORMED},
        {GET "Host:\r\n\r\n", 0, ERR_MALFORMED},
        {GET "Host: a@b\r\n\r\n", 0, ERR_MALFORMED},
        {GET "Host: a b\r\n\r\n", 0, ERR_MALFORMED},
        {GET "Host: a:b\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X y: 1\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X : 1\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST ": 1\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "nothing\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X: 1\r\n 2\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X: 1\rY: 2\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X: 1\nY: 2\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X: 1\x01\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "X: 12\r\n\r\n", 29, ERR_MALFORMED},
        {"GET /a HTTP/1.1\r\n" HOST "\r\n", 5, ERR_MALFORMED},
        {"GET /\n", 0, ERR_MALFORMED},
        {"GET /\r\n", 0, ERR_MALFORMED},
        {"GET / HTTP/1.1 \r\n", 0, ERR_MALFORMED},
        {"GET  / HTTP/1.1\r\n", 0, ERR_MALFORMED},
        {"GET / http/1.1\r\n", 0, ERR_MALFORMED},
        {"GET / HTTP/1.10\r\n", 0, ERR_MALFORMED},
        {"GET / HTTP/2.0\r\n", 0, ERR_HTTP_VERSION},
        {"PRI * HTTP/2.0\r\n", 0, ERR_HTTP_VERSION},
        {"GET /#x HTTP/1.1\r\n", 0, ERR_MALFORMED},
        {"GET /\xc3\xa9 HTTP/1.1\r\n", 0, ERR_MALFORMED},
        {"G@T / HTTP/1.1\r\n", 0, ERR_MALFORMED},
        {"TRACE / HTTP/1.1\r\n", 0, ERR_METHOD_UNKNOWN},
        {"get / HTTP/1.1\r\n", 0, ERR_METHOD_UNKNOWN},
        {"CONNECT a:1 HTTP/1.1\r\n", 0, ERR_METHOD_UNKNOWN},
        {"\x16\x03\x01", 0, ERR_MALFORMED},
        {"GET a HTTP/1.1\r\n" HOST "\r\n", 0, ERR_MALFORMED},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", 0, ERR_MALFORMED},
        {"GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n", 0, ERR_MALFORMED},
        {"GET http:///x HTTP/1.1\r\n" HOST "\r\n", 0, ERR_MALFORMED},
        {"GET http://u@a/x HTTP/1.1\r\n" HOST "\r\n", 0, ERR_MALFORMED},
        {"GET http://a/x HTTP/1.1\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Authorization: a\r\nAuthorization: b\r\n\r\n", 0, ERR_MALFORMED},
        {GET HOST "Expect: tea\r\n\r\n", 0, ERR_EXPECTATION},
    };

    return cr_make_param_array(struct head_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct head_case *c, framing, is_one_request_for_every_reader)
{
    char copy[200];
    head_t head;

    cr_assert_eq(parse(c->text, c->nul, &head, copy), c->want, "%s", c->text);
}

Test(framing, says_what_is_wrong_as_early_as_it_is_there)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: \n";
    const char *why;
    size_t at = 0, len, i = 0;

    while (!framing_scan(text, ++i, &at, &len, &why))
        cr_assert_lt(i, strlen(text));
    cr_assert_eq(i, strlen(text));
}

struct target_case {
    char method[8], in[40], want[40];
};

ParameterizedTestParameters(framing, serves_a_url_by_its_path)
{
    static struct target_case cases[] = {
        {"GET", "/a?b", "/a?b"},  {"GET", "http://h/a?b", "/a?b"}, {"GET", "HTTPS://h:1/a", "/a"},
        {"GET", "http://h", "/"}, {"GET", "http://h?b", "/?b"},    {"OPTIONS", "http://h", "*"},
        {"OPTIONS", "*", "*"},    {"GET", "//a/b", "//a/b"},
    };

    return cr_make_param_array(struct target_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct target_case *c, framing, serves_a_url_by_its_path)
{
    char text[200], copy[200];
    head_t head;

    snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: other\r\n\r\n", c->method, c->in);
    cr_assert_eq(parse(text, 0, &head, copy), 0);
    cr_assert_str_eq(head.target, c->want);
}

struct persist_case {
    char text[80];
    bool closes;
};

ParameterizedTestParameters(framing, knows_whether_the_connection_goes_on)
{
    static struct persist_case cases[] = {
        {GET HOST "\r\n", false},
        {GET HOST "Connection: close\r\n\r\n", true},
        {GET HOST "Connection: x, Close\r\n\r\n", true},
        {GET HOST "Connection: closed\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false},
    };

    return cr_make_param_array(struct persist_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct persist_case *c, framing, knows_whether_the_connection_goes_on)
{
    char copy[200];
    head_t head;

    cr_assert_eq(parse(c->text, 0, &head, copy), 0);
    cr_assert_eq(head.closes, c->closes, "%s", c->text);
}

struct chunks_case {
    char text[80], want[20];
    bool done, bad;
};

ParameterizedTestParameters(framing, decodes_chunks)
{
    static struct chunks_case cases[] = {
        {"5\r\nhello\r\n0\r\n\r\n", "hello", true, false},
        {"2;x=\"y\"\r\nhe\r\n3\r\nllo\r\n0\r\nX: 1\r\n\r\n", "hello", true, false},
        {"A\r\n0123456789\r\n000\r\n\r\n", "0123456789", true, false},
        {"5\r\nhel", "hel", false, false},
        {"5\nhello\r\n", "", false, true},
        {"5\r\nhelloX\n", "", false, true},
        {"0x5\r\nhello\r\n", "", false, true},
        {" 5\r\nhello\r\n", "", false, true},
        {"-5\r\nhello\r\n", "", false, true},
        {"\r\n", "", false, true},
        {"100000000\r\n", "", false, true},
        {"5 \r\nhello\r\n", "", false, true},
        {"0\r\nX: \x01\r\n\r\n", "", false, true},
        {"0\r\n\rX", "", false, true},
    };

    return cr_make_param_array(struct chunks_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* In one piece, and byte by byte. */
ParameterizedTest(struct chunks_case *c, framing, decodes_chunks)
{
    for (size_t piece = 1; piece <= 80; piece += 79) {
        chunks_t chunks = {0};
        char got[100] = "";
        bool done = false;
        int r = 0;

        for (size_t at = 0; !r && !done && at < strlen(c->text);) {
            size_t len = strlen(c->text) - at, used, body;
            const char *why;
            char data[80];

            len = len < piece ? len : piece;
            memcpy(data, c->text + at, len);
            r = chunks_take(&chunks, data, len, &used, &body, &done, &why);
            if (!r)
                strncat(got, data, body);
            at += used;
        }
        cr_assert_eq(r != 0, c->bad, "%s", c->text);
        if (!r) {
            cr_assert_str_eq(got, c->want);
            cr_assert_eq(done, c->done);
        }
    }
}

struct client_case {
    char headers[160];
    char want[64]; /* "": refused */
};

ParameterizedTestParameters(framing, a_proxy_names_exactly_one_client)
{
    static struct client_case cases[] = {
        {"X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7"},
        {"x-forwarded-for: 2001:db8::1\r\n", "2001:db8::1"},
        {"X-Forwarded-For: 2001:0DB8:0::0001\r\n", "2001:db8::1"},
        {"X-Forwarded-For: ::ffff:192.0.2.7\r\n", "192.0.2.7"},
        {"X-Forwarded-For: 0:0:0:0:0:FFFF:c000:0207\r\n", "192.0.2.7"},
        {"X-Forwarded-For: ::192.0.2.7\r\n", "::192.0.2.7"},
        {"", ""},
        {"X-Forwarded-For:\r\n", ""},
        {"X-Forwarded-For: 192.0.2.7, 192.0.2.8\r\n", ""},
        {"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.7\r\n", ""},
        {"X-Forwarded-For: 192.0.2.7\r\nX-FORWARDED-FOR: 192.0.2.8\r\n", ""},
        {"X-Forwarded-For: 192.0.2\r\n", ""},
        {"X-Forwarded-For: [2001:db8::1]\r\n", ""},
        {"X-Forwarded-For: 192.0.2.7:80\r\n", ""},
        {"X-Forwarded-For: somebody\r\n", ""},
    };
    return cr_make_param_array(struct client_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct client_case *one, framing, a_proxy_names_exactly_one_client)
{
    char text[300], copy[300];
    char client[INET6_ADDRSTRLEN] = "";
    head_t head;

    snprintf(text, sizeof(text), GET HOST "%s\r\n", one->headers);
    cr_assert_eq(parse(text, 0, &head, copy), 0, "%s", one->headers);
    cr_assert_eq(framing_client(&head, client), *one->want != '\0', "%s", one->headers);
    cr_assert_str_eq(client, one->want, "%s", one->headers);
}
