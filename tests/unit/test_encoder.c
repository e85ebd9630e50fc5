/* Encoders: what comes out decodes to what went in, in whatever pieces, at once where it was flushed, and in bounded memory. */
#include "services/edge/modules/encoder.h"

#include <brotli/decode.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

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

static size_t decode_zstd(const unsigned char *in, size_t in_len, unsigned char *out, size_t room,
                          bool *ended)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    ZSTD_inBuffer from = {in, in_len, 0};
    ZSTD_outBuffer to = {out, room, 0};
    size_t left = 1;

    ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, 23); /* RFC 9659: what clients take */
    while (from.pos < from.size && left) {
        left = ZSTD_decompressStream(zstd, &to, &from);
        cr_assert_not(ZSTD_isError(left), "%s", ZSTD_getErrorName(left));
    }
    *ended = left == 0;
    ZSTD_freeDCtx(zstd);
    return to.pos;
}

static size_t decode_br(const unsigned char *in, size_t in_len, unsigned char *out, size_t room,
                        bool *ended)
{
    BrotliDecoderState *brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    size_t left = room;
    BrotliDecoderResult result =
        BrotliDecoderDecompressStream(brotli, &in_len, &in, &left, &out, NULL);

    cr_assert(result == BROTLI_DECODER_RESULT_SUCCESS
              || result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT);
    *ended = result == BROTLI_DECODER_RESULT_SUCCESS;
    BrotliDecoderDestroyInstance(brotli);
    return room - left;
}

static size_t decode_zlib(coding_t coding, const unsigned char *in, size_t in_len,
                          unsigned char *out, size_t room, bool *ended)
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

/* Decodes what is there so far; returns how many bytes came of it. *ended: the coding's end is there. */
static size_t decode(coding_t coding, const unsigned char *in, size_t in_len, unsigned char *out,
                     size_t room, bool *ended)
{
    switch (coding) {
    case CODING_ZSTD:
        return decode_zstd(in, in_len, out, room, ended);
    case CODING_BR:
        return decode_br(in, in_len, out, room, ended);
    default:
        return decode_zlib(coding, in, in_len, out, room, ended);
    }
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
        {CODING_DEFLATE, 65536, 17, false, 300},  {CODING_ZSTD, BODY, OUT, false, BODY},
        {CODING_ZSTD, 4096, 16384, false, -1},    {CODING_ZSTD, 65536, 16384, true, -1},
        {CODING_ZSTD, 997, 16, true, -1},         {CODING_ZSTD, 65536, 17, false, 300},
        {CODING_ZSTD, 300, 100, true, 0},         {CODING_BR, BODY, OUT, false, BODY},
        {CODING_BR, 4096, 16384, false, -1},      {CODING_BR, 65536, 16384, true, -1},
        {CODING_BR, 997, 16, true, -1},           {CODING_BR, 65536, 17, false, 300},
        {CODING_BR, 300, 100, true, 0},
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

/* Bytes of a body whose parts have nothing to do with each other: what takes the most of everything. */
static void fill_randomly(unsigned char *body, size_t len)
{
    uint32_t seed = 3;

    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        body[i] = (unsigned char)(seed >> 24 & (i / 5000 % 2 ? 0x07 : 0xff));
    }
}

Test(encoder, has_memory_as_documented)
{
    static const struct {
        size_t usual, most, small; /* KiB: as encoder.h says; whatever comes; of 256 bytes */
    } bounds[CODING_COUNT] = {[CODING_ZSTD] = {660, 768, 44},
                              [CODING_BR] = {1950, 3072, 1000},
                              [CODING_GZIP] = {270, 320, 24},
                              [CODING_DEFLATE] = {270, 320, 24}};
    unsigned char *body = a_body(), *out = malloc(OUT);

    for (unsigned i = 0; i < CODING_COUNT; i++) {
        encoder_t *encoder = encoder_new((coding_t)i, -1), *small = encoder_new((coding_t)i, 256),
                  *hard = encoder_new((coding_t)i, -1);
        unsigned char *noise = malloc(BODY);

        write_all(encoder, ENCODE_FLUSH, body, BODY, out, OUT);
        cr_assert_gt(encoder_memory(encoder), 100 << 10);
        cr_assert_leq(encoder_memory(encoder), bounds[i].usual << 10, "%s %zu", coding_names[i],
                      encoder_memory(encoder));
        write_all(small, ENCODE_END, body, 256, out, OUT);
        cr_assert_lt(encoder_memory(small), bounds[i].small << 10, "%s %zu", coding_names[i],
                     encoder_memory(small));
        fill_randomly(noise, BODY);
        for (int round = 0; round < 20; round++)
            write_all(hard, round % 3 ? ENCODE_MORE : ENCODE_FLUSH, noise, BODY, out, OUT);
        cr_assert_leq(encoder_memory(hard), bounds[i].most << 10, "%s %zu", coding_names[i],
                      encoder_memory(hard));
        cr_assert_eq(encoder_memory_max((coding_t)i), bounds[i].most << 10);
        encoder_destroy(&encoder);
        encoder_destroy(&small);
        encoder_destroy(&hard);
        free(noise);
    }
    free(body);
    free(out);
}

/* A flush that has no room stays open, and what comes meanwhile waits for its end. */
Test(encoder, goes_on_behind_a_flush_that_was_not_complete)
{
    unsigned char *body = a_body(), *out = malloc(OUT), *back = malloc(BODY + 1);

    for (unsigned i = 0; i < CODING_COUNT; i++) {
        encoder_t *encoder = encoder_new((coding_t)i, -1);
        encode_io_t io = {body, 60000, out, 100};
        size_t made;
        bool ended;

        cr_assert_eq(encoder_write(encoder, ENCODE_FLUSH, &io), ENCODED_PART);
        made = (size_t)(io.out - out);
        made += write_all(encoder, ENCODE_FLUSH, io.in, io.in_len, out + made, 16);
        cr_assert_eq(decode((coding_t)i, out, made, back, BODY + 1, &ended), 60000);
        io = (encode_io_t){body + 60000, 1000, out + made, 16};
        (void)encoder_write(encoder, ENCODE_FLUSH, &io);
        made = (size_t)(io.out - out);
        /* more comes before that flush is complete */
        made += write_all(encoder, ENCODE_MORE, io.in, 1000 - (size_t)(io.in - body - 60000) + 4000,
                          out + made, 64);
        made += write_all(encoder, ENCODE_END, NULL, 0, out + made, 64);
        cr_assert_eq(decode((coding_t)i, out, made, back, BODY + 1, &ended), 65000, "%s",
                     coding_names[i]);
        cr_assert(ended);
        cr_assert_arr_eq(back, body, 65000);
        encoder_destroy(&encoder);
    }
    free(body);
    free(out);
    free(back);
}
