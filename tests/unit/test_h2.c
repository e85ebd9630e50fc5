#include "services/edge/http/h2.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    CONTINUATION = 9,
    PADDED = 8,
    BLOCK_MAX = 4096
};

/* Writes a frame of zeros; returns its size. */
static size_t put_frame(unsigned char *at, unsigned type, unsigned flags, uint32_t len)
{
    memset(at, 0, H2_FRAME_HEAD + len);
    at[0] = (unsigned char)(len >> 16);
    at[1] = (unsigned char)(len >> 8);
    at[2] = (unsigned char)len;
    at[3] = (unsigned char)type;
    at[4] = (unsigned char)flags;
    at[8] = 1;
    return H2_FRAME_HEAD + len;
}

struct h2_case {
    struct {
        unsigned type, flags;
        uint32_t len;
        unsigned char first; /* byte of the payload */
    } frames[4];
    size_t body, overhead;
    char why[64]; /* empty: accepted */
};

ParameterizedTestParameters(h2, frames_are_counted)
{
    static struct h2_case cases[] = {
        {{{DATA, 0, 100, 0}}, 100, 9, ""},
        {{{DATA, 0, 16384, 0}, {DATA, 1, 0, 0}}, 16384, 18, ""},
        {{{DATA, 0, 16385, 0}}, 0, 0, "no HTTP/2, or a frame of more than 16384 bytes"},
        {{{PING, 0, 16385, 0}}, 0, 0, "no HTTP/2, or a frame of more than 16384 bytes"},
        {{{DATA, PADDED, 100, 10}}, 89, 20, ""},
        {{{DATA, PADDED, 256, 255}}, 0, 265, ""},
        {{{DATA, PADDED, 1, 0}}, 0, 10, ""},
        {{{DATA, PADDED, 5, 200}}, 0, 14, ""}, /* nginx refuses it */
        {{{DATA, PADDED, 0, 0}}, 0, 9, ""},
        {{{SETTINGS, 0, 18, 0}, {PING, 0, 8, 0}}, 0, 44, ""},
        {{{HEADERS, 0, BLOCK_MAX - 9, 0}}, 0, 0, ""},
        {{{HEADERS, 0, BLOCK_MAX - 8, 0}}, 0, 0, "a head larger than postern_response_header_size"},
        {{{HEADERS, 0, BLOCK_MAX - 27, 0}, {CONTINUATION, 0, 0, 0}, {CONTINUATION, 0, 0, 0}},
         0,
         0,
         ""},
        {{{HEADERS, 0, BLOCK_MAX - 27, 0}, {CONTINUATION, 0, 0, 0}, {CONTINUATION, 0, 1, 0}},
         0,
         0,
         "a head larger than postern_response_header_size"},
        {{{HEADERS, 0, BLOCK_MAX - 9, 0}, {DATA, 0, 1, 0}, {HEADERS, 0, BLOCK_MAX - 9, 0}},
         1,
         9,
         ""},
    };
    return cr_make_param_array(struct h2_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct h2_case *c, h2, frames_are_counted)
{
    static unsigned char bytes[4 * (H2_FRAME_HEAD + H2_FRAME_MAX + 1)];
    size_t len = 0, at;

    for (int i = 0;
         i < 4 && (i == 0 || c->frames[i].type || c->frames[i].len || c->frames[i].flags); i++) {
        at = len;
        len += put_frame(bytes + len, c->frames[i].type, c->frames[i].flags, c->frames[i].len);
        if (c->frames[i].len)
            bytes[at + H2_FRAME_HEAD] = c->frames[i].first;
    }
    for (size_t piece = 1; piece <= len; piece = piece < 20 ? piece + 1 : 2 * piece) {
        const char *why = NULL;
        h2_scan_t scan;

        h2_begin(&scan);
        for (at = 0; at < len && !why; at += piece)
            why = h2_scan(&scan, bytes + at, at + piece < len ? piece : len - at, BLOCK_MAX, 0);
        cr_assert_str_eq(why ? why : "", c->why);
        if (!why) {
            cr_assert_eq(scan.body, c->body, "in pieces of %zu", piece);
            cr_assert_eq(scan.overhead, c->overhead);
            cr_assert_eq(scan.have, 0u);
        }
    }
}

Test(h2, the_code_of_a_reset_is_known)
{
    unsigned char bytes[2 * (H2_FRAME_HEAD + 8)];
    size_t len = put_frame(bytes, PING, 0, 8);
    h2_scan_t scan;

    len += put_frame(bytes + len, RST_STREAM, 0, 4);
    memcpy(bytes + len - 4, "\1\2\3\10", 4);
    h2_begin(&scan);
    for (size_t i = 0; i < len; i++) {
        cr_assert_not(scan.reset);
        cr_assert_null(h2_scan(&scan, bytes + i, 1, BLOCK_MAX, 0));
    }
    cr_assert(scan.reset);
    cr_assert_eq(scan.code, 0x01020308u);
}

/* How many frames of a kind are taken before they are too many, or -1: as many as one likes. */
static int flood(unsigned type, unsigned flags, uint32_t len, uint64_t sent_each)
{
    enum { ENOUGH = 1 << 18 };
    unsigned char bytes[H2_FRAME_HEAD + 256];
    size_t size = put_frame(bytes, type, flags, len);
    h2_scan_t scan;

    bytes[H2_FRAME_HEAD] = 255;
    h2_begin(&scan);
    for (int i = 0; i < ENOUGH; i++)
        if (h2_scan(&scan, bytes, size, BLOCK_MAX, sent_each * (uint64_t)i))
            return i;
    return -1;
}

Test(h2, frames_that_carry_nothing_end)
{
    cr_assert_eq(flood(PING, 0, 8, 0), H2_OVERHEAD_FREE / 17);
    cr_assert_eq(flood(SETTINGS, 0, 0, 0), H2_OVERHEAD_FREE / 9);
    cr_assert_eq(flood(DATA, 0, 0, 0), H2_OVERHEAD_FREE / 9);
    cr_assert_gt(flood(DATA, PADDED, 256, 0), 0, "nothing but padding");
    cr_assert_eq(flood(0xfa, 0, 100, 0), H2_OVERHEAD_FREE / 109);
}

Test(h2, an_upload_of_small_messages_may_be_acknowledged_one_by_one)
{
    cr_assert_eq(flood(8, 0, 4, 14), -1, "WINDOW_UPDATE for each");
    cr_assert_eq(flood(DATA, 0, 5, 0), -1, "small messages");
}

struct h2_field_case {
    char name[32], value[32], why[64];
};

ParameterizedTestParameters(h2, fields_are_judged)
{
    static struct h2_field_case cases[] = {
        {"grpc-status", "0", ""},
        {"x-bin", "AAA=", ""},
        {"x-high", "caf\xc3\xa9", ""},
        {"x-tab", "a\tb", ""},
        {"x-empty", "", ""},
        {"content-length", "12", ""},
        {"trailer", "grpc-status", ""},
        {"", "a", "a field whose name is no token"},
        {"x y", "a", "a field whose name is no token"},
        {"x:y", "a", "a field whose name is no token"},
        {"x\x80", "a", "a field whose name is no token"},
        {"x", "a\x01", "a control character in a field"},
        {"x", "a\x7f", "a control character in a field"},
        {"x", "\x1b[31m", "a control character in a field"},
        {"connection", "close", "a field of HTTP/1.1's connections"},
        {"keep-alive", "timeout=5", "a field of HTTP/1.1's connections"},
        {"proxy-connection", "close", "a field of HTTP/1.1's connections"},
        {"transfer-encoding", "chunked", "a field of HTTP/1.1's connections"},
        {"upgrade", "h2c", "a field of HTTP/1.1's connections"},
        {"content-length", "", "a Content-Length that is no number"},
        {"content-length", "-1", "a Content-Length that is no number"},
        {"content-length", "1, 1", "a Content-Length that is no number"},
        {"content-length", "1234567890123456789", "a Content-Length that is no number"},
    };
    return cr_make_param_array(struct h2_field_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct h2_field_case *c, h2, fields_are_judged)
{
    h2_fields_t fields = {0};
    const char *why = h2_judge_field(&fields, c->name, strlen(c->name), c->value, strlen(c->value));

    cr_assert_str_eq(why ? why : "", c->why);
}

Test(h2, fields_say_how_much_they_are)
{
    h2_fields_t fields = {0};

    cr_assert_null(h2_judge_field(&fields, "x-a", 3, "12345", 5));
    cr_assert_null(h2_judge_field(&fields, "longer", 6, "b", 1));
    cr_assert_eq(fields.count, 2);
    cr_assert_eq(fields.bytes, 15);
    cr_assert_eq(fields.largest, 6);
}

Test(h2, a_length_stands_once_and_fields_end)
{
    h2_fields_t fields = {0};

    cr_assert_null(h2_judge_field(&fields, "content-length", 14, "1", 1));
    cr_assert_str_eq(h2_judge_field(&fields, "content-length", 14, "1", 1), "two Content-Length");
    while (fields.count < 1000)
        cr_assert_null(h2_judge_field(&fields, "a", 1, "b", 1));
    cr_assert_str_eq(h2_judge_field(&fields, "a", 1, "b", 1), "too many fields");
}
