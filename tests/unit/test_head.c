#include "common/base/cleanup.h"
#include "services/edge/http/head.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* All at once. */
static head_verdict_t scan(head_t *head, const char *text, size_t len, const char **why)
{
    head_begin(head);
    return head_scan(head, text, len, why);
}

/* Those of nginx's tables. */
static uintptr_t hash_of(const char *lower, size_t len)
{
    uintptr_t hash = 0;

    for (size_t i = 0; i < len; i++)
        hash = 31 * hash + (unsigned char)lower[i];
    return hash;
}

/* What reads a judged head at less cost reads the same. */
static void check_folded(const char *text, size_t len)
{
    head_field_t one, other;
    size_t at = 0, folded_at = head_status_len(text, len);
    char lower[128];
    uintptr_t hash;

    while (head_next(text, len, &at, &one)) {
        cr_assert(head_next_folded(text, len, &folded_at, &other, lower, &hash), "%s", text);
        cr_assert_eq(at, folded_at);
        cr_assert_eq(one.name, other.name);
        cr_assert_eq(one.name_len, other.name_len);
        cr_assert_eq(one.value, other.value);
        cr_assert_eq(one.value_len, other.value_len);
        cr_assert_eq(strncasecmp(lower, one.name, one.name_len), 0);
        for (size_t i = 0; i < one.name_len; i++)
            cr_assert(lower[i] < 'A' || lower[i] > 'Z', "%s", text);
        cr_assert_eq(hash, hash_of(lower, one.name_len));
    }
    cr_assert_not(head_next_folded(text, len, &folded_at, &other, lower, &hash), "%s", text);
}

struct head_case {
    char text[128];
    unsigned status; /* 0: refused */
    long length;
    int chunked;
    char why[64];
};

ParameterizedTestParameters(head, is_judged)
{
    static struct head_case cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", 200, -1, 0, ""},
        {"HTTP/1.1 200\r\n\r\n", 200, -1, 0, ""},
        {"HTTP/1.1 200 \r\n\r\n", 200, -1, 0, ""},
        {"HTTP/1.0 404 Not\tFound \xe9\r\nA: b\r\n\r\n", 404, -1, 0, ""},
        {"HTTP/1.1 599 x\nA:b\n\n", 599, -1, 0, ""},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, 5, 0, ""},
        {"HTTP/1.1 200 OK\r\ncontent-length:\t5 \r\n\r\n", 200, 5, 0, ""},
        {"HTTP/1.1 200 OK\r\ncontent-length:\t5 \r\nContent-Length: 5\r\n\r\n", 0, 0, 0,
         "two Content-Length"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", 200, -1, 1, ""},
        {"HTTP/1.1 200 OK\r\nA:\r\n!#$%&'*+-.^_`|~9Zz: \r\n\r\n", 200, -1, 0, ""},
        {"HTTP/1.1 103 x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 103, -1, 0, ""},
        {"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n", 101, -1, 0, ""},
        {"HTTP/1.1 000 x\r\n\r\n", 0, 0, 0, "a status that is not from 100 to 599"},
        {"HTTP/1.1 001 x\r\n\r\n", 0, 0, 0, "a status that is not from 100 to 599"},
        {"HTTP/1.1 099 x\r\n\r\n", 0, 0, 0, "a status that is not from 100 to 599"},
        {"HTTP/1.1 600 x\r\n\r\n", 0, 0, 0, "a status that is not from 100 to 599"},
        {"HTTP/1.1 999 x\r\n\r\n", 0, 0, 0, "a status that is not from 100 to 599"},
        {"HTTP/1.1 2000 x\r\n\r\n", 0, 0, 0, "a status that is not three digits"},
        {"HTTP/1.1 200.1 x\r\n\r\n", 0, 0, 0, "a status that is not three digits"},
        {"HTTP/1.1 20 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"HTTP/1.1 2 0 0\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"HTTP/1.1  200 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"HTTP/2.0 200 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"HTTP/1.10 200 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"http/1.1 200 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"\r\nHTTP/1.1 200 x\r\n\r\n", 0, 0, 0, "no status line of HTTP/1"},
        {"h", 0, 0, 0, "no status line of HTTP/1"},
        {"HTTP/1.1 200 a\rb\r\n\r\n", 0, 0, 0, "a control character in the status line"},
        {"HTTP/1.1 200 x\r\nA: a\rb\r\n\r\n", 0, 0, 0, "a control character in a field"},
        {"HTTP/1.1 200 a\x01\r\n\r\n", 0, 0, 0, "a control character in the status line"},
        {"HTTP/1.1 200 x\r\nA: \x1f\r\n\r\n", 0, 0, 0, "a control character in a field"},
        {"HTTP/1.1 200 x\r\nA: b\x7f"
         "c\r\n\r\n",
         0, 0, 0, "a control character in a field"},
        {"HTTP/1.1 103 x\r\nA: b\x0b\r\n\r\n", 0, 0, 0, "a control character in a field"},
        {"HTTP/1.1 200 x\r\nA: b\t\x80\xff c\r\n\r\n", 200, -1, 0, ""},
        {"HTTP/1.1 200 x\r\nA: b\r\n c\r\n\r\n", 0, 0, 0, "a folded field"},
        {"HTTP/1.1 200 x\r\n\tA: b\r\n\r\n", 0, 0, 0, "a folded field"},
        {"HTTP/1.1 200 x\r\n: b\r\n\r\n", 0, 0, 0, "a field whose name is no token"},
        {"HTTP/1.1 200 x\r\nA : b\r\n\r\n", 0, 0, 0, "a field whose name is no token"},
        {"HTTP/1.1 200 x\r\nA\r\n\r\n", 0, 0, 0, "a field whose name is no token"},
        {"HTTP/1.1 200 x\r\nHTTP/1.1 200 x\r\n\r\n", 0, 0, 0, "a field whose name is no token"},
        {"HTTP/1.1 200 x\r\n\xc3\xa9: b\r\n\r\n", 0, 0, 0, "a field whose name is no token"},
        {"HTTP/1.1 200 x\r\r\n\r\n", 0, 0, 0, "a control character in the status line"},
#define LENGTH(value) "HTTP/1.1 200 x\r\nContent-Length: " value "\r\n\r\n"
#define NO_NUMBER     "a Content-Length that is no number"
        {LENGTH(""), 0, 0, 0, NO_NUMBER},
        {LENGTH("-1"), 0, 0, 0, NO_NUMBER},
        {LENGTH("+1"), 0, 0, 0, NO_NUMBER},
        {LENGTH("5, 5"), 0, 0, 0, NO_NUMBER},
        {LENGTH("0x5"), 0, 0, 0, NO_NUMBER},
        {LENGTH("9223372036854775808"), 0, 0, 0, NO_NUMBER},
        {LENGTH("9223372036854775807"), 200, 9223372036854775807, 0, ""},
        {LENGTH("5\r\nContent-Length: 6"), 0, 0, 0, "two Content-Length"},
        {LENGTH("5\r\nTransfer-Encoding: chunked"), 0, 0, 0,
         "Content-Length and Transfer-Encoding"},
        {LENGTH("5\r\nTransfer-Encoding: x"), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
#define CODING(value) "HTTP/1.1 200 x\r\nTransfer-Encoding: " value "\r\n\r\n"
        {CODING("gzip, chunked"), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
        {CODING("chunked, gzip"), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
        {CODING("xchunked"), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
        {CODING("identity"), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
        {CODING(""), 0, 0, 0, "a Transfer-Encoding that is not chunked"},
        {CODING("chunked\r\nTransfer-Encoding: chunked"), 0, 0, 0, "two Transfer-Encoding"},
        {CODING("chunked\r\nContent-Length: 0"), 0, 0, 0, "Content-Length and Transfer-Encoding"},
    };

    return cr_make_param_array(struct head_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct head_case *one, head, is_judged)
{
    head_t head;
    const char *why = "";
    size_t len = strlen(one->text);

    if (!one->status) {
        cr_assert_eq(scan(&head, one->text, len, &why), HEAD_BAD, "%s", one->text);
        cr_assert_str_eq(why, one->why, "%s: %s", one->text, why);
        return;
    }
    cr_assert_eq(scan(&head, one->text, len, &why), HEAD_WHOLE, "%s: %s", one->text, why);
    cr_assert_eq(head.status, one->status);
    cr_assert_eq(head.length, one->length);
    cr_assert_eq(head.chunked, one->chunked);
    cr_assert_eq(head.len, len);
    check_folded(one->text, len);
    for (size_t n = 0; n < len; n++)
        cr_assert_eq(scan(&head, one->text, n, &why), HEAD_MORE, "%s cut at %zu", one->text, n);
}

Test(head, has_no_nul)
{
    static const char line[] = "HTTP/1.1 200 a\0b\r\n\r\n",
                      field[] = "HTTP/1.1 200 a\r\nA: \0\r\n\r\n";
    head_t head;
    const char *why;

    cr_assert_eq(scan(&head, line, sizeof(line) - 1, &why), HEAD_BAD);
    cr_assert_eq(scan(&head, field, sizeof(field) - 1, &why), HEAD_BAD);
}

Test(head, is_whole_where_the_empty_line_is_and_what_stands_behind_is_not_looked_at)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n\0 : \r\n";
    head_t head;
    const char *why;

    cr_assert_eq(scan(&head, text, sizeof(text) - 1, &why), HEAD_WHOLE);
    cr_assert_eq(head.len, strlen("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"));
}

Test(head, comes_in_any_pieces)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nA: b\r\n\r\nrest";
    head_t head;
    const char *why;
    size_t n = 0;

    head_begin(&head);
    while (head_scan(&head, text, ++n, &why) == HEAD_MORE)
        ;
    cr_assert_eq(n, strlen(text) - 4);
    cr_assert_eq(head.len, n);
    cr_assert_eq(head.length, 7);
}

Test(head, has_a_thousand_fields_at_most)
{
    static char text[16 + 4 * (HEAD_FIELDS_MAX + 2) + 3];
    head_t head;
    const char *why;
    size_t n = (size_t)sprintf(text, "HTTP/1.1 200 x\n");

    for (int i = 0; i < HEAD_FIELDS_MAX; i++)
        n += (size_t)sprintf(text + n, "a:b\n");
    text[n] = '\n';
    cr_assert_eq(scan(&head, text, n + 1, &why), HEAD_WHOLE);
    n += (size_t)sprintf(text + n, "a:b\n\n");
    cr_assert_eq(scan(&head, text, n, &why), HEAD_BAD);
    cr_assert_str_eq(why, "too many fields");
}

Test(head, says_how_much_its_fields_are)
{
    head_t head;
    const char *why;
    const char text[] = "HTTP/1.1 200 x\r\nX-A: 12345\r\nLonger-Name:b\r\nc:\r\n\r\n";

    cr_assert_eq(scan(&head, text, sizeof(text) - 1, &why), HEAD_WHOLE);
    cr_assert_eq(head.fields, 3);
    cr_assert_eq(head.names, 3 + 11 + 1);
    cr_assert_eq(head.largest, 11);
}

Test(head, of_1xx_is_no_answer_but_101_is)
{
    head_t head = {.status = 103};

    cr_assert(head_is_interim(&head));
    head.status = 199;
    cr_assert(head_is_interim(&head));
    head.status = 101;
    cr_assert_not(head_is_interim(&head));
    head.status = 200;
    cr_assert_not(head_is_interim(&head));
}

Test(head, tells_its_fields_one_by_one_and_which_of_them_go_on)
{
    static const char text[] = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n"
                               "x-accel-redirect: /x\r\nX-Accel: y\r\nContent-Length: 3\n"
                               "KEEP-ALIVE: 5\r\nServer: s\r\nEmpty:\r\n\r\nbody: no\r\n";
    char got[256] = "";
    head_t head;
    head_field_t field;
    const char *why;

    cr_assert_eq(scan(&head, text, sizeof(text) - 1, &why), HEAD_WHOLE);
    for (size_t at = 0; head_next(text, head.len, &at, &field);)
        if (head_field_passes(&field))
            sprintf(got + strlen(got), "%.*s=%.*s;", (int)field.name_len, field.name,
                    (int)field.value_len, field.value);
    cr_assert_str_eq(got, "Link=</a>; rel=preload;X-Accel=y;Empty=;");
}

Test(head, ends_what_is_of_the_connection_and_nothing_else)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"HTTP/1.1 200 x\r\nA: b\r\nConnection: close, keep-alive\r\n\r\n",
         "HTTP/1.1 200 x\r\nA: b\r\nConnection: close, keep-alive\r\n\r\n"},
        {"HTTP/1.1 200 x\r\nConnection: Upgrade\r\nUpgrade: h2,h2c\r\nA: b\r\n\r\n",
         "HTTP/1.1 200 x\r\nConnection: Upgrade\r\nA: b\r\n\r\n"},
        {"HTTP/1.1 200 x\nupgrade: a\nte: b\nTRAILER: c\nproxy-connection: d\nkeep-alive: e\n\n",
         "HTTP/1.1 200 x\n\n"},
        {"HTTP/1.1 200 x\r\nX-A: 1\r\nUpgrades: 2\r\nX-B:3\r\nT: 4\r\nx-a: 5\r\n"
         "Connection: ,x-A ,, x-b\t,\r\nConnection: X-C\r\nX-C: 6\r\nX: 7\r\n\r\n",
         "HTTP/1.1 200 x\r\nUpgrades: 2\r\nT: 4\r\nConnection: ,x-A ,, x-b\t,\r\nConnection: "
         "X-C\r\nX: 7\r\n\r\n"},
        /* where the body ends is not for Connection to say, nor that there is none */
        {"HTTP/1.1 200 x\r\nConnection: content-length, connection, te\r\nContent-Length: "
         "2\r\n\r\n",
         "HTTP/1.1 200 x\r\nConnection: content-length, connection, te\r\nContent-Length: "
         "2\r\n\r\n"},
        {"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade, x-a\r\nX-A: b\r\nTE: "
         "c\r\n\r\n",
         "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade, x-a\r\n\r\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        size_t len = (size_t)sprintf(text, "%sbody: x\r\n", cases[i].in), begin;
        const char *why;
        head_t head;

        cr_assert_eq(scan(&head, text, len, &why), HEAD_WHOLE);
        begin = head_end_hop(&head, text);
        cr_assert_eq(head.len, strlen(cases[i].out));
        cr_assert_eq(begin + head.len, strlen(cases[i].in));
        cr_assert(strncmp(text + begin, cases[i].out, head.len) == 0, "%s", text + begin);
        cr_assert_str_eq(text + begin + head.len, "body: x\r\n");
    }
}

Test(head, of_101_knows_a_websocket_and_nothing_beside_it)
{
    static const struct {
        const char *fields;
        bool websocket;
    } cases[] = {
        {"Upgrade: websocket\n", true},
        {"upgrade:\tWebSocket \n", true},
        {"", false},
        {"Upgrade: h2c\n", false},
        {"Upgrade: websocket, h2c\n", false},
        {"Upgrade: websocket/13\n", false},
        {"Upgrade: h2c\nUpgrade: websocket\n", false},
        {"Upgrade: websocket\nUpgrade: websocket\n", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        const char *why;
        head_t head;

        sprintf(text, "HTTP/1.1 101 x\n%s\n", cases[i].fields);
        cr_assert_eq(scan(&head, text, strlen(text), &why), HEAD_WHOLE);
        cr_assert_eq(head.websocket, cases[i].websocket, "%s", text);
    }
}

Test(head, lists_a_bounded_number_of_options)
{
    char text[256] = "HTTP/1.1 200 x\nConnection: a", *end = text + strlen(text);
    head_t head;
    const char *why;

    for (int i = 1; i < HEAD_OPTIONS_MAX; i++)
        end += sprintf(end, ",a");
    strcpy(end, "\n\n");
    cr_assert_eq(scan(&head, text, strlen(text), &why), HEAD_WHOLE);
    strcpy(end, "\nConnection: b\n\n");
    cr_assert_eq(scan(&head, text, strlen(text), &why), HEAD_BAD);
    cr_assert_str_eq(why, "too many options in Connection");
}
