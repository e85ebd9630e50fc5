/* Encoders: what comes out decodes to what went in, in whatever pieces, at once where it was flushed, and in bounded memory. */
#include "services/edge/modules/encoder.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BODY = 300000, OUT = 2 * BODY };

/* Half of it repeats, half of it does not. */
static unsigned char *a_body(void)
{
    unsigned char *body = malloc(BODY);
    uint32_t seed = 1;

    for (size_t i = 0; i < BODY; i++) {
        seed = seed * 1664525 + 1013904223;
        body[i] = i / 1000 % 2 ? (unsigned char)(seed >> 24)
                               : (unsigned char)"a sentence that repeats "[i % 24];
    }
    return body;
}

/* Decodes what is there so far; returns how many bytes came of it. *ended: the coding's end is there. */
static size_t decode(coding_t coding, const unsigned char *in, size_t in_len, unsigned char *out,
                     size_t room, bool *ended)
{
    z_stream zlib = {0};
    int rc;

    cr_assert_eq(inflateInit2(&zlib, coding == CODING_GZIP ? 15 + 16 : 15), Z_OK);
    zlib.next_in = (unsigned char *)in;
    zlib.avail_in = (unsigned)in_len;
    zlib.next_out = out;
    zlib.avail_out = (unsigned)room;
    rc = inflate(&zlib, Z_SYNC_FLUSH);
    *ended = rc == Z_STREAM_END;
    cr_assert(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
    (void)inflateEnd(&zlib);
    return room - zlib.avail_out;
}

/* Writes with at most room bytes at a time; returns the bytes that came. */
static size_t write_all(encoder_t *encoder, encode_t what, const unsigned char *in, size_t in_len,
                        unsigned char *out, size_t room)
{
    encode_io_t io = {in, in_len, out, 0};
    encoded_t rc;

    do {
        io.out_len = room;
        rc = encoder_write(encoder, what, &io);
        cr_assert_neq(rc, ENCODED_NOT);
    } while (rc == ENCODED_PART);
    cr_assert_eq(io.in_len, 0);
    return (size_t)(io.out - out);
}

struct piece_case {
    coding_t coding;
    size_t piece, room;
    bool flush;
    int64_t length; /* as it is announced */
};

ParameterizedTestParameters(encoder, gives_what_decodes_to_what_it_took)
{
    static struct piece_case cases[] = {
        {CODING_GZIP, BODY, OUT, false, BODY},    {CODING_GZIP, 4096, 16384, false, -1},
        {CODING_GZIP, 65536, 16384, true, -1},    {CODING_GZIP, 997, 16, true, -1},
        {CODING_DEFLATE, BODY, OUT, false, BODY}, {CODING_DEFLATE, 1000, 100, true, -1},
        {CODING_DEFLATE, 65536, 17, false, 300},
    };

    return cr_make_param_array(struct piece_case, cases, sizeof(cases) / sizeof(*cases));
}

ParameterizedTest(struct piece_case *one, encoder, gives_what_decodes_to_what_it_took)
{
    unsigned char *body = a_body(), *out = malloc(OUT), *back = malloc(BODY + 1);
    encoder_t *encoder = encoder_new(one->coding, one->length);
    size_t made = 0, at = 0;
    bool ended;

    while (at < BODY) {
        size_t piece = BODY - at < one->piece ? BODY - at : one->piece;

        made += write_all(encoder, one->flush ? ENCODE_FLUSH : ENCODE_MORE, body + at, piece,
                          out + made, one->room);
        at += piece;
        if (one->flush && (at == piece || at > BODY - 5000)) {
            cr_assert_eq(decode(one->coding, out, made, back, BODY + 1, &ended), at);
            cr_assert_not(ended);
        }
    }
    made += write_all(encoder, ENCODE_END, NULL, 0, out + made, one->room);
    cr_assert_eq(decode(one->coding, out, made, back, BODY + 1, &ended), BODY);
    cr_assert(ended);
    cr_assert_arr_eq(back, body, BODY);
    encoder_destroy(&encoder);
    cr_assert_null(encoder);
    encoder_destroy(&encoder);
    free(body);
    free(out);
    free(back);
}

Test(encoder, has_memory_as_documented)
{
    unsigned char *body = a_body(), *out = malloc(OUT);

    for (unsigned i = 0; i < CODING_COUNT; i++) {
        encoder_t *encoder = encoder_new((coding_t)i, -1), *small = encoder_new((coding_t)i, 256);

        write_all(encoder, ENCODE_FLUSH, body, BODY, out, OUT);
        cr_assert_gt(encoder_memory(encoder), 100 << 10);
        cr_assert_leq(encoder_memory(encoder), ENCODER_MEMORY_MAX);
        cr_assert_lt(encoder_memory(small), 24 << 10, "%zu", encoder_memory(small));
        encoder_destroy(&encoder);
        encoder_destroy(&small);
    }
    free(body);
    free(out);
}
