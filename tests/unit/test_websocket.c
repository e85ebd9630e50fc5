/* Every rule of RFC 6455 for what a client sends, and what it gets. */
#include "services/edge/modules/websocket.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the handshake ---- */

Test(websocket, accepts_the_key_of_the_rfc)
{
    char out[WEBSOCKET_ACCEPT_LEN + 1] = "";

    cr_assert(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", 24, out));
    cr_assert_str_eq(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

struct key_case {
    char key[40];
    bool valid;
};

ParameterizedTestParameters(websocket, a_key_is_the_base64_of_16_bytes)
{
    static struct key_case cases[] = {
        {"dGhlIHNhbXBsZSBub25jZQ==", true},
        {"++++++++++++++////////==", true},
        {"AAAAAAAAAAAAAAAAAAAAAB==", true}, /* bits that stand for nothing */
        {"", false},
        {"AAAAAAAAAAAAAAAAAAAAAA", false},
        {"AAAAAAAAAAAAAAAAAAAAAA=", false},
        {"AAAAAAAAAAAAAAAAAAAAAAA=", false}, /* 17 bytes */
        {"AAAAAAAAAAAAAAAAAAAAAAAA", false}, /* 18 bytes */
        {"AAAAAAAAAAAAAAAAAAAAA===", false},
        {"AAAAAAAAAAAAAAAAAAAAA-==", false}, /* the alphabet of URLs */
        {"AAAAAAAAAAAAAAAAAAAAA ==", false},
        {"AAAAAAAAAAA=AAAAAAAAAA==", false},
        {"SGVsbG8sIHdvcmxkIQ==", false}, /* 13 bytes */
        {"AAAAAAAAAAAAAAAAAAAAAA== ", false},
    };

    return cr_make_param_array(struct key_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct key_case *one, websocket, a_key_is_the_base64_of_16_bytes)
{
    cr_assert_eq(websocket_key_is_valid(one->key, strlen(one->key)), one->valid, "%s", one->key);
}

/* ---- from the client ---- */

static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};

/* A masked frame whose first byte is first; returns its length. */
static size_t a_frame(uint8_t *out, unsigned first, const void *payload, size_t len)
{
    size_t head = websocket_write_head(out, 0, len);

    out[0] = (uint8_t)first;
    out[1] |= 0x80;
    memcpy(out + head, mask, 4);
    for (size_t i = 0; i < len; i++)
        out[head + 4 + i] = ((const uint8_t *)payload)[i] ^ mask[i % 4];
    return head + 4 + len;
}

/* Reads all of it, in pieces of that many bytes; what comes of it is appended to out. The events but
 * MORE, as a text. */
static void read_all(const uint8_t *bytes, size_t len, size_t piece, char *events, uint8_t *out,
                     size_t *out_len)
{
    websocket_t decoder = {0};
    uint8_t copy[70000];
    websocket_event_t event = WEBSOCKET_MORE;

    *events = '\0';
    *out_len = 0;
    for (size_t at = 0; at < len && event != WEBSOCKET_CLOSE && event != WEBSOCKET_BROKEN;
         at += piece) {
        size_t part = len - at < piece ? len - at : piece;
        websocket_input_t input = {copy, copy + part, copy};

        memcpy(copy, bytes + at, part);
        do {
            event = websocket_read(&decoder, &input);
            if (event == WEBSOCKET_PING)
                events +=
                    sprintf(events, "ping(%.*s)", decoder.control_len, (char *)decoder.control);
            else if (event != WEBSOCKET_MORE)
                events +=
                    sprintf(events, event == WEBSOCKET_CLOSE ? "close %u" : "%u", decoder.code);
        } while (event == WEBSOCKET_PING);
        memcpy(out + *out_len, copy, (size_t)(input.out - copy));
        *out_len += (size_t)(input.out - copy);
    }
}

struct frames_case {
    char what[64];
    uint8_t bytes[160];
    size_t len;
    char events[160];
    char payload[32];
};

/* Bytes as they are. */
#define RAW(...) {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})
#define M        0x37, 0xfa, 0x21, 0x3d

ParameterizedTestParameters(websocket, frames)
{
    static struct frames_case cases[] = {
        {"a message", RAW(0x82, 0x81, M, 'a' ^ 0x37), "", "a"},
        {"an empty message", RAW(0x82, 0x80, M), "", ""},
        {"two messages", RAW(0x82, 0x81, M, 'a' ^ 0x37, 0x82, 0x81, M, 'b' ^ 0x37), "", "ab"},
        {"fragments", RAW(0x02, 0x81, M, 'a' ^ 0x37, 0x00, 0x80, M, 0x80, 0x81, M, 'b' ^ 0x37), "",
         "ab"},
        {"a ping among fragments",
         RAW(0x02, 0x81, M, 'a' ^ 0x37, 0x89, 0x81, M, 'p' ^ 0x37, 0x80, 0x81, M, 'b' ^ 0x37),
         "ping(p)", "ab"},
        {"an empty ping", RAW(0x89, 0x80, M), "ping()", ""},
        {"pongs that nobody asked for", RAW(0x8a, 0x80, M, 0x8a, 0x81, M, 1), "", ""},
        {"a close without a code", RAW(0x88, 0x80, M), "close 0", ""},
        {"a close with a code", RAW(0x88, 0x82, M, 0x03 ^ 0x37, 0xe8 ^ 0xfa), "close 1000", ""},
        {"a close among fragments", RAW(0x02, 0x81, M, 'a' ^ 0x37, 0x88, 0x80, M), "close 0", "a"},
        {"nothing counts behind a close", RAW(0x82, 0x81, M, 'a' ^ 0x37, 0x88, 0x80, M, 0xff, 0xff),
         "close 0", "a"},
        {"a text", RAW(0x81, 0x81, M, 'a' ^ 0x37), "1003", ""},
        {"a text in fragments", RAW(0x01, 0x81, M, 'a' ^ 0x37), "1003", ""},
        {"what came before a mistake", RAW(0x82, 0x81, M, 'a' ^ 0x37, 0x81, 0x80, M), "1003", "a"},
        {"no mask", RAW(0x82, 0x01, 'a'), "1002", ""},
        {"no mask on a ping", RAW(0x89, 0x00), "1002", ""},
        {"RSV1, of compression", RAW(0xc2, 0x81, M, 0), "1002", ""},
        {"RSV2", RAW(0xa2, 0x81, M, 0), "1002", ""},
        {"RSV3", RAW(0x92, 0x81, M, 0), "1002", ""},
        {"RSV1 on a ping", RAW(0xc9, 0x80, M), "1002", ""},
        {"opcode 3", RAW(0x83, 0x80, M), "1002", ""},
        {"opcode 7", RAW(0x87, 0x80, M), "1002", ""},
        {"opcode 11", RAW(0x8b, 0x80, M), "1002", ""},
        {"opcode 15", RAW(0x8f, 0x80, M), "1002", ""},
        {"a ping in fragments", RAW(0x09, 0x80, M), "1002", ""},
        {"a close in fragments", RAW(0x08, 0x80, M), "1002", ""},
        {"a ping of 126 bytes", RAW(0x89, 0xfe, 0, 126, M), "1002", ""},
        {"a close of 2^16 bytes", RAW(0x88, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, M), "1002", ""},
        {"a continuation of nothing", RAW(0x80, 0x80, M), "1002", ""},
        {"a continuation of what has ended", RAW(0x82, 0x80, M, 0x00, 0x80, M), "1002", ""},
        {"a message in a message", RAW(0x02, 0x80, M, 0x82, 0x80, M), "1002", ""},
        {"a text in a message", RAW(0x02, 0x80, M, 0x81, 0x80, M), "1002", ""},
        {"125 written in 2 bytes", RAW(0x82, 0xfe, 0, 125, M), "1002", ""},
        {"126 written in 2 bytes", RAW(0x82, 0xfe, 0, 126, M), "", ""},
        {"65535 written in 8 bytes", RAW(0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, M), "1002", ""},
        {"65536 written in 8 bytes", RAW(0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, M), "", ""},
        {"2^63 - 1", RAW(0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, M), "", ""},
        {"2^63", RAW(0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, M), "1002", ""},
        {"half a head", RAW(0x82, 0xff, 0, 0, 0), "", ""},
        {"half a code", RAW(0x88, 0x81, M, 0x03 ^ 0x37), "1002", ""},
        {"a reason", RAW(0x88, 0x84, M, 0x03 ^ 0x37, 0xe9 ^ 0xfa, 0xc3 ^ 0x21, 0xa4 ^ 0x3d),
         "close 1001", ""},
        {"half a character", RAW(0x88, 0x83, M, 0x03 ^ 0x37, 0xe9 ^ 0xfa, 0xc3 ^ 0x21), "1007", ""},
        {"a surrogate",
         RAW(0x88, 0x85, M, 0x03 ^ 0x37, 0xe9 ^ 0xfa, 0xed ^ 0x21, 0xa0 ^ 0x3d, 0x80 ^ 0x37),
         "1007", ""},
        {"an overlong character",
         RAW(0x88, 0x84, M, 0x03 ^ 0x37, 0xe9 ^ 0xfa, 0xc0 ^ 0x21, 0x80 ^ 0x3d), "1007", ""},
    };

    return cr_make_param_array(struct frames_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct frames_case *one, websocket, frames)
{
    char events[256];
    uint8_t out[256];
    size_t len;

    for (size_t piece = 1; piece <= one->len; piece++) {
        read_all(one->bytes, one->len, piece, events, out, &len);
        cr_assert_str_eq(events, one->events, "%s, by %zu", one->what, piece);
        cr_assert_eq(len, strlen(one->payload), "%s, by %zu", one->what, piece);
        cr_assert_arr_eq(out, one->payload, len, "%s, by %zu", one->what, piece);
    }
}

Test(websocket, codes_of_a_client_are_those_that_may_be_sent)
{
    for (unsigned code = 0; code < 65536; code++) {
        bool valid = (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006)
                     || (code >= 3000 && code <= 4999);
        uint8_t payload[] = {(uint8_t)(code >> 8), (uint8_t)code}, frame[32], out[8];
        char events[32], want[32];
        size_t len = a_frame(frame, 0x88, payload, 2), out_len;

        read_all(frame, len, len, events, out, &out_len);
        sprintf(want, valid ? "close %u" : "1002", code);
        cr_assert_str_eq(events, want);
    }
}

Test(websocket, payload_is_unmasked_wherever_it_is_cut)
{
    static uint8_t payload[66000], frame[70000], out[70000];
    static const size_t lengths[] = {1, 7, 8, 9, 125, 126, 127, 1000, 65535, 65536, 66000};
    char events[32];
    size_t out_len;

    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t len = a_frame(frame, 0x82, payload, lengths[i]);

        for (size_t piece = 1; piece < len + 1; piece += 1 + piece * 2 / 3) {
            read_all(frame, len, piece, events, out, &out_len);
            cr_assert_eq(out_len, lengths[i]);
            cr_assert_arr_eq(out, payload, out_len);
        }
    }
}

Test(websocket, a_message_of_2_to_the_40_bytes_takes_no_memory)
{
    static const uint8_t head[] = {0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, M};
    static uint8_t part[65536];
    websocket_t decoder = {0};
    websocket_input_t input = {head, head + sizeof(head), part};
    uint64_t left = 1ull << 40;

    cr_assert_eq(websocket_read(&decoder, &input), WEBSOCKET_MORE);
    for (unsigned i = 0; i < 16; i++) {
        input = (websocket_input_t){part, part + sizeof(part), part};
        cr_assert_eq(websocket_read(&decoder, &input), WEBSOCKET_MORE);
        cr_assert_eq(input.out, part + sizeof(part));
        left -= sizeof(part);
        cr_assert_eq(decoder.left, left);
    }
}

/* ---- to the client ---- */

Test(websocket, heads_are_as_short_as_can_be)
{
    static const struct {
        uint64_t len;
        uint8_t head[10];
        size_t head_len;
    } cases[] = {
        {0, {0x82, 0}, 2},
        {125, {0x82, 125}, 2},
        {126, {0x82, 126, 0, 126}, 4},
        {65535, {0x82, 126, 0xff, 0xff}, 4},
        {65536, {0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}, 10},
        {1ull << 40, {0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0}, 10},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t head[WEBSOCKET_HEAD_MAX];

        cr_assert_eq(websocket_write_head(head, WEBSOCKET_BINARY, cases[i].len), cases[i].head_len);
        cr_assert_arr_eq(head, cases[i].head, cases[i].head_len);
    }
}

Test(websocket, close_frames_have_a_code_and_a_reason_or_nothing)
{
    uint8_t frame[WEBSOCKET_FRAME_MAX];
    char reason[300];

    cr_assert_eq(websocket_write_close(frame, 0, ""), 2);
    cr_assert_arr_eq(frame, "\x88\x00", 2);
    cr_assert_eq(websocket_write_close(frame, WEBSOCKET_NORMAL, ""), 4);
    cr_assert_arr_eq(frame, "\x88\x02\x03\xe8", 4);
    cr_assert_eq(websocket_write_close(frame, WEBSOCKET_FAILED, "why"), 7);
    cr_assert_arr_eq(frame, "\x88\x05\x03\xf3why", 7);
    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    cr_assert_eq(websocket_write_close(frame, WEBSOCKET_FAILED, reason), WEBSOCKET_FRAME_MAX);
    cr_assert_eq(frame[1], 125);
}

Test(websocket, a_pong_has_what_the_ping_had)
{
    uint8_t frame[WEBSOCKET_FRAME_MAX];

    cr_assert_eq(websocket_write_control(frame, WEBSOCKET_IS_PONG, "abc", 3), 5);
    cr_assert_arr_eq(frame,
                     "\x8a\x03"
                     "abc",
                     5);
    cr_assert_eq(websocket_write_control(frame, WEBSOCKET_IS_PONG, NULL, 0), 2);
}
