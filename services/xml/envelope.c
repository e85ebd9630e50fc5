#include "services/xml/envelope.h"
#include "common/base/cleanup.h"

#include <string.h>
#include <zlib.h>

static int digit_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Digits of base64 become bytes; out has room for all. False: a character that has no place. */
static bool decode_digits(const char *text, size_t len, unsigned char *out, size_t *ret_len)
{
    unsigned bits = 0;
    size_t digits = 0, padding = 0, n = 0;

    for (size_t i = 0; i < len; i++) {
        int digit = digit_of((unsigned char)text[i]);

        if (is_space(text[i]))
            continue;
        if (text[i] == '=') {
            padding++;
            continue;
        }
        if (digit < 0 || padding)
            return false;
        bits = (bits << 6 | (unsigned)digit) & 0xffffff;
        if (++digits % 4 != 1)
            out[n++] = (unsigned char)(bits >> (6 - 2 * ((digits - 1) % 4)));
    }
    *ret_len = n;
    return (digits + padding) % 4 == 0 && padding <= 2 && digits % 4 != 1
           && !(digits % 4 == 2 && bits & 15) && !(digits % 4 == 3 && bits & 3);
}

bool base64_decode(const char *text, size_t len, unsigned char **ret_bytes, size_t *ret_len)
{
    _cleanup_(free_mem) unsigned char *out = malloc(len / 4 * 3 + 4);

    if (!out || !decode_digits(text, len, out, ret_len))
        return false;
    *ret_bytes = take(out);
    return true;
}

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool url_decode(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text; text++) {
        char c = *text == '+' ? ' ' : *text;

        if (c == '%') {
            int high = hex_of(text[1]), low = high < 0 ? -1 : hex_of(text[2]);

            if (low < 0 || !(high | low))
                return false;
            c = (char)(high << 4 | low);
            text += 2;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* A deflate bomb ends where its XML would be larger than may be. 0: *ret_xml has size bytes. */
static bool inflate_whole(const unsigned char *bytes, size_t len, char *out, size_t size,
                          size_t *ret_len)
{
    z_stream stream = {.next_in = (Bytef *)bytes,
                       .avail_in = (uInt)len,
                       .next_out = (Bytef *)out,
                       .avail_out = (uInt)size};
    int r;

    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return false;
    r = inflate(&stream, Z_FINISH);
    *ret_len = size - stream.avail_out;
    inflateEnd(&stream);
    return r == Z_STREAM_END && stream.avail_in == 0;
}

static int open_deflated(const unsigned char *bytes, size_t len, char **ret_xml, size_t *ret_len,
                         problem_t *problem)
{
    _cleanup_(free_mem) char *xml = malloc(ENVELOPE_XML_MAX + 1);

    if (!xml || !inflate_whole(bytes, len, xml, ENVELOPE_XML_MAX, ret_len))
        return problem_add(problem, ERR_SAML_MESSAGE, NULL,
                           "the message is not DEFLATE of at most %d bytes", ENVELOPE_XML_MAX);
    xml[*ret_len] = '\0';
    *ret_xml = take(xml);
    return 0;
}

int envelope_open(const char *text, bool is_deflated, char **ret_xml, size_t *ret_len,
                  problem_t *problem)
{
    _cleanup_(free_mem) unsigned char *bytes = NULL;
    size_t len = strlen(text);

    if (len > ENVELOPE_TEXT_MAX)
        return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the message is longer than %d bytes",
                           ENVELOPE_TEXT_MAX);
    if (!base64_decode(text, len, &bytes, &len))
        return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the message is not base64");
    if (is_deflated)
        return open_deflated(bytes, len, ret_xml, ret_len, problem);
    bytes[len] = '\0'; /* base64_decode has room for it */
    *ret_xml = (char *)take(bytes);
    *ret_len = len;
    return 0;
}
