/* What the edge packs by hand, read by the library. */
#include "services/edge/events/edge_pack.h"
#include "common/codec/pack.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static unsigned char bytes[1 << 17];

static json_t *unpack(const pack_t *pk)
{
    json_t *value = NULL;

    cr_assert_not(pk->full);
    cr_assert_eq(unpack_json(bytes, (size_t)(pk->at - bytes), &value), 0);
    return value;
}

Test(edge_pack, every_form_and_both_sides_of_its_limits)
{
    static const int64_t numbers[] = {0,         1,     127,   128,        255,
                                      256,       65535, 65536, 4294967295, 4294967296,
                                      INT64_MAX, -1,    -32,   -33,        INT64_MIN};
    static const size_t lengths[] = {0, 1, 31, 32, 255, 256, 8192, 65535};
    enum {
        NUMBERS = sizeof(numbers) / sizeof(*numbers),
        LENGTHS = sizeof(lengths) / sizeof(*lengths)
    };
    char *text = malloc(65536);
    json_t *value;

    memset(text, 'x', 65536);
    for (size_t i = 0; i < NUMBERS; i++) {
        pack_t pk = {bytes, bytes + sizeof(bytes), false};

        pack_int64(&pk, numbers[i]);
        value = unpack(&pk);
        cr_assert_eq(json_integer_value(value), numbers[i]);
        json_decref(value);
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        pack_t pk = {bytes, bytes + sizeof(bytes), false};

        pack_str(&pk, text, lengths[i]);
        value = unpack(&pk);
        cr_assert_eq(json_string_length(value), lengths[i]);
        json_decref(value);
    }
    for (size_t n = 14; n < 18; n++) {
        pack_t pk = {bytes, bytes + sizeof(bytes), false};
        char key[2] = "a";

        pack_array(&pk, n);
        for (size_t i = 0; i < n; i++) {
            pack_map(&pk, n);
            for (size_t k = 0; k < n; k++) {
                key[0] = (char)('a' + k);
                pack_str(&pk, key, 1);
                k % 2 ? pack_nil(&pk) : pack_bool(&pk, k % 4 == 0);
            }
        }
        value = unpack(&pk);
        cr_assert_eq(json_array_size(value), n);
        cr_assert_eq(json_object_size(json_array_get(value, n - 1)), n);
        json_decref(value);
    }
    free(text);
}

Test(edge_pack, what_does_not_fit_is_said_and_nothing_is_written_past_the_end)
{
    pack_t pk = {bytes, bytes + 10, false};

    memset(bytes, 0xee, 20);
    pack_str(&pk, "123456789", 9);
    cr_assert_not(pk.full);
    pack_str(&pk, "1", 1);
    cr_assert(pk.full);
    cr_assert_eq(bytes[10], 0xee);
}

Test(edge_pack, behind_the_end_there_is_room_for_the_fixed_part_only)
{
    unsigned char room[24];
    pack_t pk = {room, room + 8, false};

    pack_str(&pk, "1234567", 7);
    pack_fixed(&pk, "12345678", 8); /* at is beyond end now */
    cr_assert_eq(pk.at, room + 16);
    cr_assert_not(pk.full);
    pack_append(&pk, "1", 1);
    cr_assert(pk.full);
    cr_assert_eq(pk.at, room + 16);
}
