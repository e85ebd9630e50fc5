/* Eight bytes at a time against one at a time. */
#include "services/events/text.h"

#include <criterion/criterion.h>

static bool lower_simply(unsigned char *out, const unsigned char *data, size_t len)
{
    bool ascii = true;

    for (size_t i = 0; i < len; i++) {
        ascii &= data[i] < 0x80;
        out[i] = data[i] >= 'A' && data[i] <= 'Z' ? data[i] | 0x20 : data[i];
    }
    return ascii;
}

static bool capitalize_simply(unsigned char *out, const unsigned char *data, size_t len)
{
    bool ascii = lower_simply(out, data, len);

    for (size_t i = 0; i < len; i++)
        if ((i == 0 || out[i - 1] == '-') && out[i] >= 'a' && out[i] <= 'z')
            out[i] = (unsigned char)(out[i] - 0x20);
    return ascii;
}

Test(text, every_byte_at_every_place_of_every_length_is_as_one_by_one)
{
    unsigned char data[33], out[33], simple[33];

    for (size_t len = 0; len <= sizeof(data); len++)
        for (size_t at = 0; at < (len ? len : 1); at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                for (size_t i = 0; i < len; i++)
                    data[i] = (unsigned char)"aZ-x-Qz@[`{"[(i + byte) % 11];
                if (len)
                    data[at] = (unsigned char)byte;
                cr_assert_eq(text_is_ascii(data, len), lower_simply(simple, data, len));
                cr_assert_eq(text_lower(out, data, len), lower_simply(simple, data, len));
                cr_assert_eq(memcmp(out, simple, len), 0, "lower %zu %zu %u", len, at, byte);
                cr_assert_eq(text_capitalize(out, data, len), capitalize_simply(simple, data, len));
                cr_assert_eq(memcmp(out, simple, len), 0, "capitalize %zu %zu %u", len, at, byte);
            }
}

Test(text, header_names_have_their_usual_capitals)
{
    unsigned char out[64];

    text_capitalize(out, (const unsigned char *)"x-forwarded-FOR", 15);
    cr_assert_eq(memcmp(out, "X-Forwarded-For", 15), 0);
    text_capitalize(out, (const unsigned char *)"ETAG", 4);
    cr_assert_eq(memcmp(out, "Etag", 4), 0);
}
