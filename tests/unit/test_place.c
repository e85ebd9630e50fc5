/* Where an address is: by databases that the tests write, and by broken ones. */
#include "common/base/cleanup.h"
#include "common/place/mmdb.h"
#include "common/place/place.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- a writer of databases ---- */

enum { NODES_MAX = 2000, DATA_MAX = 1 << 16, EMPTY = -1 };

typedef struct writer {
    unsigned version, bits;    /* of addresses (4, 6); of records */
    int records[NODES_MAX][2]; /* a node, EMPTY, or DATA_BIT and an offset */
    int nodes;
    unsigned char data[DATA_MAX];
    size_t len;
} writer_t;

enum { DATA_BIT = 1 << 24 };

static int add_node(writer_t *self)
{
    cr_assert_lt(self->nodes, NODES_MAX);
    self->records[self->nodes][0] = self->records[self->nodes][1] = EMPTY;
    return self->nodes++;
}

static void begin(writer_t *self, unsigned version, unsigned bits)
{
    memset(self, 0, sizeof(*self));
    self->version = version;
    self->bits = bits;
    add_node(self);
}

static void put(writer_t *self, const void *bytes, size_t len)
{
    memcpy(self->data + self->len, bytes, len);
    self->len += len;
}

static void put_byte(writer_t *self, unsigned byte)
{
    self->data[self->len++] = (unsigned char)byte;
}

static void put_map(writer_t *self, unsigned pairs)
{
    put_byte(self, 0xe0 | pairs);
}

static void put_text(writer_t *self, const char *text)
{
    size_t len = strlen(text);

    put_byte(self, 0x40 | (len < 29 ? (unsigned)len : len < 285 ? 29 : 30));
    if (len >= 285)
        put_byte(self, (unsigned)(len - 285) >> 8);
    if (len >= 29)
        put_byte(self, (unsigned)(len - (len < 285 ? 29 : 285)) & 0xff);
    put(self, text, len);
}

static void put_number(writer_t *self, unsigned type, unsigned size, uint64_t value)
{
    put_byte(self, type < 8 ? type << 5 | size : size);
    if (type > 7)
        put_byte(self, type - 7);
    while (size--)
        put_byte(self, (unsigned)(value >> (8 * size)) & 0xff);
}

static void put_real(writer_t *self, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_number(self, 3, 8, bits);
}

/* A pointer to an offset below 2,048. */
static void put_pointer(writer_t *self, size_t to)
{
    put_byte(self, 0x20 | (unsigned)(to >> 8));
    put_byte(self, (unsigned)to & 0xff);
}

/* The network has the value that begins at this offset. */
static void put_network(writer_t *self, const char *address, int prefix, size_t at)
{
    unsigned char bytes[16];
    int node = 0;

    cr_assert_eq(inet_pton(self->version == 4 ? AF_INET : AF_INET6, address, bytes), 1);
    for (int i = 0; i < prefix; i++) {
        int *record = &self->records[node][bytes[i / 8] >> (7 - i % 8) & 1];

        if (i == prefix - 1) {
            *record = DATA_BIT | (int)at;
        } else {
            if (*record == EMPTY)
                *record = add_node(self);
            node = *record;
        }
    }
}

static size_t put_record(unsigned char *out, unsigned bits, uint32_t left, uint32_t right)
{
    uint32_t pair[2] = {left, right};
    size_t n = 0;

    if (bits == 28) {
        out[0] = (unsigned char)(left >> 16), out[1] = (unsigned char)(left >> 8);
        out[2] = (unsigned char)left;
        out[3] = (unsigned char)((left >> 24) << 4 | right >> 24);
        out[4] = (unsigned char)(right >> 16), out[5] = (unsigned char)(right >> 8);
        out[6] = (unsigned char)right;
        return 7;
    }
    for (int side = 0; side < 2; side++)
        for (unsigned shift = bits; shift; shift -= 8)
            out[n++] = (unsigned char)(pair[side] >> (shift - 8));
    return n;
}

/* The whole file; the caller frees it. */
static unsigned char *finish(writer_t *self, size_t *ret_len)
{
    static writer_t metadata;
    unsigned char *out = calloc(1, DATA_MAX * 4);
    size_t n = 0;

    for (int i = 0; i < self->nodes; i++) {
        uint32_t pair[2];

        for (int side = 0; side < 2; side++) {
            int record = self->records[i][side];

            pair[side] = record == EMPTY     ? (uint32_t)self->nodes
                         : record & DATA_BIT ? (uint32_t)(self->nodes + 16 + (record & ~DATA_BIT))
                                             : (uint32_t)record;
        }
        n += put_record(out + n, self->bits, pair[0], pair[1]);
    }
    n += 16;
    memcpy(out + n, self->data, self->len);
    n += self->len;
    memcpy(out + n, "\xab\xcd\xefMaxMind.com", 14);
    n += 14;
    metadata.len = 0;
    put_map(&metadata, 4);
    put_text(&metadata, "node_count");
    put_number(&metadata, 6, 4, (uint64_t)self->nodes);
    put_text(&metadata, "record_size");
    put_number(&metadata, 5, 2, self->bits);
    put_text(&metadata, "ip_version");
    put_number(&metadata, 5, 2, self->version);
    put_text(&metadata, "binary_format_major_version");
    put_number(&metadata, 5, 2, 2);
    memcpy(out + n, metadata.data, metadata.len);
    *ret_len = n + metadata.len;
    return out;
}

/* A city, with a value before what is asked for that has to be passed over, and pointers. */
static void put_city(writer_t *self, const char *code, double latitude, double longitude,
                     unsigned radius)
{
    size_t name = self->len;

    put_text(self, "country");
    put_map(self, 3);
    put_text(self, "city");
    put_map(self, 1);
    put_text(self, "names");
    put_map(self, 2);
    put_text(self, "de");
    put_text(self, "Ort");
    put_text(self, "list");
    put_number(self, 11, 2, 0); /* an array of two, whose items follow */
    self->len -= 2;
    put_text(self, "a");
    put_map(self, 0);
    put_pointer(self, name);
    put_map(self, 1);
    put_text(self, "iso_code");
    put_text(self, code);
    put_text(self, "location");
    put_map(self, 3);
    put_text(self, "latitude");
    put_real(self, latitude);
    put_text(self, "longitude");
    put_real(self, longitude);
    put_text(self, "accuracy_radius");
    put_number(self, 5, 2, radius);
}

/* Where the map of put_city begins. */
static size_t city(writer_t *self, const char *code, double latitude, double longitude,
                   unsigned radius)
{
    size_t start = self->len + 8; /* behind "country" and its head */

    put_city(self, code, latitude, longitude, radius);
    return start;
}

static size_t network(writer_t *self, uint32_t number, const char *organization)
{
    size_t start = self->len;

    put_map(self, 2);
    put_text(self, "autonomous_system_number");
    put_number(self, 6, 4, number);
    put_text(self, "autonomous_system_organization");
    put_text(self, organization);
    return start;
}

static writer_t writer;

static void write_file(const char *path)
{
    size_t len;
    unsigned char *bytes = finish(&writer, &len);
    FILE *file = fopen(path, "w");

    cr_assert(file && fwrite(bytes, 1, len, file) == len && !fclose(file));
    free(bytes);
}

static place_t look_up(place_bases_t *places, const char *address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    place_t place;

    if (inet_pton(AF_INET, address, &four.sin_addr) == 1)
        place_find(places, (const struct sockaddr *)&four, &place);
    else if (inet_pton(AF_INET6, address, &six.sin6_addr) == 1)
        place_find(places, (const struct sockaddr *)&six, &place);
    else
        cr_assert(false, "%s", address);
    return place;
}

/* ---- tests ---- */

Test(place, says_country_point_and_network)
{
    static const unsigned bits[] = {24, 28, 32};

    for (size_t i = 0; i < LEN(bits); i++) {
        _cleanup_(place_bases_destroy) place_bases_t *places = NULL;
        place_t place;
        size_t at;

        begin(&writer, 6, bits[i]);
        at = city(&writer, "DE", 52.5, 13.25, 20);
        put_network(&writer, "::192.0.2.0", 120, at);
        put_network(&writer, "2001:db8::", 32, city(&writer, "NZ", -41.5, 174.75, 1000));
        write_file("/tmp/postern-test-cities.mmdb");
        begin(&writer, 4, bits[i]);
        put_network(&writer, "192.0.0.0", 16, network(&writer, 64500, "Example \xc3\xa9 AG"));
        write_file("/tmp/postern-test-networks.mmdb");
        places =
            place_bases_new("/tmp/postern-test-cities.mmdb", "/tmp/postern-test-networks.mmdb");
        place = look_up(places, "192.0.2.1");
        cr_assert_str_empty(place.country_code, "nothing is read before the first look");
        place_bases_look(places, 0);
        place = look_up(places, "192.0.2.1");
        cr_assert_str_eq(place.country_code, "DE");
        cr_assert(place.has_point && place.has_radius);
        cr_assert(place.latitude == 52.5 && place.longitude == 13.25);
        cr_assert_eq(place.radius_km, 20);
        cr_assert_eq(place.as_number, 64500);
        cr_assert_str_eq(place.organization, "Example \xc3\xa9 AG");
        place = look_up(places, "::ffff:192.0.2.255");
        cr_assert_str_eq(place.country_code, "DE");
        cr_assert_eq(place.as_number, 64500);
        place = look_up(places, "2001:db8:1::1");
        cr_assert_str_eq(place.country_code, "NZ");
        cr_assert(place.latitude == -41.5);
        cr_assert_eq(place.as_number, 0, "a tree of IPv4 has no networks of IPv6");
        place = look_up(places, "198.51.100.1");
        cr_assert_str_empty(place.country_code);
        cr_assert(!place.has_point && !place.has_radius && !place.as_number);
    }
}

Test(place, without_databases_nothing_is_known)
{
    _cleanup_(place_bases_destroy) place_bases_t *places = place_bases_new("", "");
    place_t place;

    place_bases_look(places, 0);
    place = look_up(places, "192.0.2.1");
    cr_assert_str_empty(place.country_code);
    place = look_up(NULL, "192.0.2.1");
    cr_assert_eq(place.as_number, 0);
}

Test(place, values_that_can_not_be_are_not_said)
{
    _cleanup_(place_bases_destroy) place_bases_t *places = NULL;
    place_t place;

    begin(&writer, 4, 24);
    put_network(&writer, "192.0.2.0", 24, city(&writer, "D\"", 91, 13.25, 30000));
    put_network(&writer, "198.51.100.0", 24, city(&writer, "DEU", 9, -181, 0));
    write_file("/tmp/postern-test-odd.mmdb");
    places = place_bases_new("/tmp/postern-test-odd.mmdb", "");
    place_bases_look(places, 0);
    place = look_up(places, "192.0.2.1");
    cr_assert_str_empty(place.country_code);
    cr_assert(!place.has_point && !place.has_radius);
    place = look_up(places, "198.51.100.1");
    cr_assert_str_empty(place.country_code);
    cr_assert(!place.has_point && place.has_radius && place.radius_km == 0);
}

Test(place, names_of_networks_end_where_the_text_does)
{
    _cleanup_(place_bases_destroy) place_bases_t *places = NULL;
    char name[400];

    memset(name, 'x', sizeof(name));
    memcpy(name + PLACE_NETWORK_MAX - 2, "\xc3\xa9", 2);
    name[399] = '\0';
    begin(&writer, 4, 24);
    put_network(&writer, "192.0.2.0", 24, network(&writer, 1, "good\xff bad"));
    put_network(&writer, "198.51.100.0", 24, network(&writer, 2, name));
    write_file("/tmp/postern-test-names.mmdb");
    places = place_bases_new("", "/tmp/postern-test-names.mmdb");
    place_bases_look(places, 0);
    cr_assert_str_eq(look_up(places, "192.0.2.1").organization, "good");
    cr_assert_eq(strlen(look_up(places, "198.51.100.1").organization), PLACE_NETWORK_MAX - 2);
}

static void write_country(const char *path, const char *code)
{
    begin(&writer, 4, 24);
    put_network(&writer, "192.0.2.0", 24, city(&writer, code, 1, 1, 1));
    write_file(path);
}

Test(place, a_file_that_was_replaced_is_read_when_two_looks_saw_it)
{
    static const char path[] = "/tmp/postern-test-replaced.mmdb";
    _cleanup_(place_bases_destroy) place_bases_t *places = NULL;
    int64_t now = 0;

    write_country(path, "DE");
    places = place_bases_new(path, "");
    place_bases_look(places, now);
    write_country("/tmp/postern-test-replaced.new", "FR");
    cr_assert_eq(rename("/tmp/postern-test-replaced.new", path), 0);
    place_bases_look(places, now + PLACE_LOOK_MS - 1);
    place_bases_look(places, now + PLACE_LOOK_MS);
    cr_assert_str_eq(look_up(places, "192.0.2.1").country_code, "DE");
    place_bases_look(places, now + 2 * PLACE_LOOK_MS);
    cr_assert_str_eq(look_up(places, "192.0.2.1").country_code, "FR");
}

Test(place, a_file_that_is_broken_or_gone_leaves_the_one_before)
{
    static const char path[] = "/tmp/postern-test-broken.mmdb";
    _cleanup_(place_bases_destroy) place_bases_t *places = NULL;
    struct stat st;
    int64_t now = 0;

    write_country(path, "DE");
    places = place_bases_new(path, "");
    place_bases_look(places, now);
    cr_assert(!stat(path, &st) && !truncate(path, st.st_size - 40)); /* as while it is written */
    for (int i = 0; i < 3; i++)
        place_bases_look(places, now += PLACE_LOOK_MS);
    cr_assert_str_eq(look_up(places, "192.0.2.1").country_code, "DE");
    cr_assert_eq(remove(path), 0);
    for (int i = 0; i < 3; i++)
        place_bases_look(places, now += PLACE_LOOK_MS);
    cr_assert_str_eq(look_up(places, "192.0.2.1").country_code, "DE");
    write_country(path, "IT");
    for (int i = 0; i < 2; i++)
        place_bases_look(places, now += PLACE_LOOK_MS);
    cr_assert_str_eq(look_up(places, "192.0.2.1").country_code, "IT");
}

static const char *const code_path[] = {"country", "iso_code", NULL};

Test(mmdb, a_value_nested_without_end_does_not_end_the_process)
{
    enum { DEEP = 30000 };
    unsigned char address[4] = {192, 0, 2, 1};
    mmdb_value_t value;
    const char *why;
    mmdb_t mmdb;
    size_t at, len, start;
    unsigned char *bytes;

    begin(&writer, 4, 24);
    start = writer.len;
    put_map(&writer, 2);
    put_text(&writer, "x");
    for (int i = 0; i < DEEP; i++)
        put(&writer, "\x01\x04", 2); /* an array of one */
    put_text(&writer, "z");
    put_text(&writer, "country");
    put_text(&writer, "y");
    put_network(&writer, "192.0.2.0", 24, start);
    bytes = finish(&writer, &len);
    cr_assert_eq(mmdb_open(&mmdb, bytes, len, &why), 0, "%s", why);
    cr_assert(mmdb_find(&mmdb, address, 32, &at));
    cr_assert(!mmdb_get(&mmdb, at, code_path, &value));
    free(bytes);
}

Test(mmdb, a_pointer_to_itself_leads_nowhere)
{
    unsigned char address[4] = {192, 0, 2, 1};
    mmdb_value_t value;
    const char *why;
    mmdb_t mmdb;
    size_t at, len;
    unsigned char *bytes;

    begin(&writer, 4, 24);
    put_pointer(&writer, 0);
    put_network(&writer, "192.0.2.0", 24, 0);
    bytes = finish(&writer, &len);
    cr_assert_eq(mmdb_open(&mmdb, bytes, len, &why), 0);
    cr_assert(mmdb_find(&mmdb, address, 32, &at));
    cr_assert(!mmdb_get(&mmdb, at, code_path, &value));
    free(bytes);
}

/* Each byte of a database as every other value that differs by a bit, and each beginning of it: no
 * lookup reads outside of it (under ASan), and none takes long. */
Test(mmdb, no_change_of_a_file_leads_out_of_it)
{
    unsigned char addresses[2][16] = {{192, 0, 2, 1}, {0x20, 0x01, 0x0d, 0xb8}};
    unsigned char *bytes;
    size_t len;

    begin(&writer, 6, 28);
    put_network(&writer, "::192.0.2.0", 120, city(&writer, "DE", 1, 1, 1));
    put_network(&writer, "2001:db8::", 32, network(&writer, 1, "x"));
    bytes = finish(&writer, &len);
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 9; bit++) {
            size_t size = bit < 8 ? len : i;
            unsigned char *copy = malloc(size + !size); /* of its own: ASan watches its end */
            mmdb_value_t value;
            const char *why;
            mmdb_t mmdb;
            size_t at;

            memcpy(copy, bytes, size);
            if (bit < 8)
                copy[i] ^= (unsigned char)(1 << bit);
            if (!mmdb_open(&mmdb, copy, size, &why))
                for (int n = 0; n < 2; n++)
                    if (mmdb_find(&mmdb, addresses[n], n ? 128 : 32, &at))
                        (void)mmdb_get(&mmdb, at, code_path, &value);
            free(copy);
        }
    free(bytes);
}

Test(mmdb, what_is_none_says_why)
{
    static const char *const cases[] = {"", "x", "\xab\xcd\xefMaxMind.com",
                                        "\xab\xcd\xefMaxMind.com\xe0"};

    for (size_t i = 0; i < LEN(cases); i++) {
        const char *why = NULL;
        mmdb_t mmdb;

        cr_expect_eq(mmdb_open(&mmdb, cases[i], strlen(cases[i]), &why), -EINVAL);
        cr_expect_not_null(why);
    }
}
