#include "common/place/mmdb.h"

#include <errno.h>
#include <string.h>

enum {
    METADATA_MAX = 128 << 10, /* bytes at the end of the file in which the metadata begin */
    SEPARATOR = 16,           /* zeros between tree and data */
    STEPS_MAX = 20000,        /* values that one path may pass over: real records have hundreds */
    IPV4_BITS = 32,
    IPV6_BITS = 128
};

static const char marker[] = "\xab\xcd\xefMaxMind.com";
enum { MARKER_LEN = sizeof(marker) - 1 };

/* Types of the format. */
enum {
    EXTENDED = 0,
    POINTER = 1,
    UTF8 = 2,
    DOUBLE = 3,
    UINT16 = 5,
    UINT32 = 6,
    MAP = 7,
    UINT64 = 9,
    ARRAY = 11,
    BOOLEAN = 14,
    FLOAT = 15,
    FIRST_EXTENDED = 7 /* added to the byte of an extended type */
};

/* The head of a value. */
typedef struct head {
    unsigned type;
    uint32_t size; /* bytes, items or pairs; of a POINTER where it leads to */
    size_t next;   /* behind the head: the value's bytes, or its first item */
} head_t;

static uint32_t natural(const unsigned char *at, size_t n)
{
    uint32_t value = 0;

    while (n--)
        value = value << 8 | *at++;
    return value;
}

static bool has_bytes(const mmdb_t *self, size_t at, size_t n)
{
    return at <= self->data_len && n <= self->data_len - at;
}

static bool read_pointer(const mmdb_t *self, size_t at, unsigned control, head_t *out)
{
    static const uint32_t bases[] = {0, 2048, 526336, 0};
    unsigned n = 1 + (control >> 3 & 3);

    if (!has_bytes(self, at, n))
        return false;
    out->size = natural(self->data + at, n);
    if (n < 4)
        out->size += ((uint32_t)(control & 7) << (8 * n)) + bases[n - 1];
    out->next = at + n;
    return true;
}

static bool read_head(const mmdb_t *self, size_t at, head_t *out)
{
    static const uint32_t bases[] = {29, 285, 65821};
    unsigned control, more;

    if (!has_bytes(self, at, 1))
        return false;
    control = self->data[at++];
    out->type = control >> 5;
    if (out->type == POINTER)
        return read_pointer(self, at, control, out);
    if (out->type == EXTENDED) {
        if (!has_bytes(self, at, 1))
            return false;
        out->type = FIRST_EXTENDED + self->data[at++];
    }
    out->size = control & 31;
    if (out->size >= 29) {
        more = out->size - 28;
        if (!has_bytes(self, at, more))
            return false;
        out->size = natural(self->data + at, more) + bases[more - 1];
        at += more;
    }
    out->next = at;
    return true;
}

/* The head of a value, or of what a pointer there leads to: a pointer may not lead to another.
 * *ret_next, if asked for, is behind the pointer, or out->next. */
static bool read_through(const mmdb_t *self, size_t at, head_t *out, size_t *ret_next)
{
    if (!read_head(self, at, out))
        return false;
    if (ret_next)
        *ret_next = out->next;
    return out->type != POINTER || (read_head(self, out->size, out) && out->type != POINTER);
}

/* Does a value of this head have its size in bytes behind it? */
static bool is_bytes(const head_t *head)
{
    return head->type != POINTER && head->type != MAP && head->type != ARRAY
           && head->type != BOOLEAN;
}

/* Pass over the value at *at, and those in it. */
static bool skip_value(const mmdb_t *self, size_t *at, unsigned *steps)
{
    uint64_t left = 1;

    while (left--) {
        head_t head;

        if (!(*steps)-- || !read_head(self, *at, &head))
            return false;
        *at = head.next;
        if (is_bytes(&head)) {
            if (!has_bytes(self, *at, head.size))
                return false;
            *at += head.size;
        } else if (head.type != POINTER && head.type != BOOLEAN) {
            left += head.type == MAP ? 2 * (uint64_t)head.size : head.size;
            if (left > STEPS_MAX)
                return false;
        }
    }
    return true;
}

/* The position of a map's value by its name. */
static bool find_member(const mmdb_t *self, const head_t *map, const char *name, size_t *ret_at,
                        unsigned *steps)
{
    size_t at = map->next, len = strlen(name);

    for (uint32_t i = 0; i < map->size; i++) {
        head_t key;

        if (!(*steps)-- || !read_through(self, at, &key, &at) || key.type != UTF8
            || !has_bytes(self, key.next, key.size))
            return false;
        if (at == key.next) /* not through a pointer */
            at += key.size;
        if (key.size == len && !memcmp(self->data + key.next, name, len)) {
            *ret_at = at;
            return true;
        }
        if (!skip_value(self, &at, steps))
            return false;
    }
    return false;
}

static bool read_real(const unsigned char *at, const head_t *head, double *ret_real)
{
    uint64_t bits = (uint64_t)natural(at, 4) << 32;
    uint32_t single = (uint32_t)(bits >> 32);
    float narrow;

    if (head->type == FLOAT && head->size == 4) {
        memcpy(&narrow, &single, sizeof(narrow));
        *ret_real = (double)narrow;
        return true;
    }
    if (head->type != DOUBLE || head->size != 8)
        return false;
    bits |= natural(at + 4, 4);
    memcpy(ret_real, &bits, sizeof(bits));
    return true;
}

static bool read_value(const mmdb_t *self, const head_t *head, mmdb_value_t *out)
{
    const unsigned char *at = self->data + head->next;
    bool is_real = head->type == DOUBLE || head->type == FLOAT;

    if (!has_bytes(self, head->next, head->size) || (is_real && head->size < 4))
        return false;
    *out = (mmdb_value_t){.kind = MMDB_TEXT, .text = (const char *)at, .len = head->size};
    if (head->type == UTF8)
        return true;
    if (is_real) {
        out->kind = MMDB_REAL;
        return read_real(at, head, &out->real);
    }
    out->kind = MMDB_NUMBER;
    for (uint32_t i = 0; i < head->size && i < 8; i++)
        out->natural = out->natural << 8 | at[i];
    return (head->type == UINT16 && head->size <= 2) || (head->type == UINT32 && head->size <= 4)
           || (head->type == UINT64 && head->size <= 8);
}

bool mmdb_get(const mmdb_t *self, size_t at, const char *const *path, mmdb_value_t *ret_value)
{
    unsigned steps = STEPS_MAX;
    head_t head;

    if (!read_through(self, at, &head, NULL))
        return false;
    for (; *path; path++)
        if (head.type != MAP || !find_member(self, &head, *path, &at, &steps)
            || !read_through(self, at, &head, NULL))
            return false;
    return is_bytes(&head) && read_value(self, &head, ret_value);
}

/* ---- the tree ---- */

/* The record of a node: bit 0 is the left one. */
static uint64_t read_record(const mmdb_t *self, uint64_t node, unsigned bit)
{
    const unsigned char *at = self->bytes + node * (self->record_bits / 4);

    if (self->record_bits == 24)
        return natural(at + 3 * bit, 3);
    if (self->record_bits == 32)
        return natural(at + 4 * bit, 4);
    return bit ? natural(at + 3, 4) & 0xfffffff : natural(at, 3) | (uint32_t)(at[3] & 0xf0) << 20;
}

static uint64_t walk_tree(const mmdb_t *self, uint64_t node, const unsigned char *address,
                          unsigned bits)
{
    for (unsigned i = 0; i < bits && node < self->nodes; i++)
        node = read_record(self, node, address[i / 8] >> (7 - i % 8) & 1);
    return node;
}

bool mmdb_find(const mmdb_t *self, const unsigned char *address, unsigned bits, size_t *ret_at)
{
    uint64_t found, start = 0;

    if (self->version == 4 && bits != IPV4_BITS)
        return false;
    if (self->version == 6 && bits == IPV4_BITS)
        start = self->ipv4_start;
    found = walk_tree(self, start, address, bits);
    /* a record that is the number of nodes says that nothing is known; one below it is another node
     * where an address has no more bits, in a broken file */
    if (found < (uint64_t)self->nodes + SEPARATOR
        || found - self->nodes - SEPARATOR >= self->data_len)
        return false;
    *ret_at = (size_t)(found - self->nodes - SEPARATOR);
    return true;
}

/* ---- the metadata ---- */

/* Behind the last marker; NULL: there is none. */
static const unsigned char *find_metadata(const unsigned char *bytes, size_t len)
{
    size_t from = len > METADATA_MAX ? len - METADATA_MAX : 0;

    for (size_t at = len; at >= from + MARKER_LEN; at--)
        if (!memcmp(bytes + at - MARKER_LEN, marker, MARKER_LEN))
            return bytes + at;
    return NULL;
}

static bool metadata_number(const mmdb_t *metadata, const char *name, uint64_t *ret_value)
{
    mmdb_value_t value;

    if (!mmdb_get(metadata, 0, (const char *const[]){name, NULL}, &value)
        || value.kind != MMDB_NUMBER)
        return false;
    *ret_value = value.natural;
    return true;
}

/* What the metadata say, if it is what this file can read. NULL | what is wrong. */
static const char *read_metadata(mmdb_t *self, const mmdb_t *metadata)
{
    uint64_t nodes, bits, version, major;

    if (!metadata_number(metadata, "binary_format_major_version", &major)
        || !metadata_number(metadata, "node_count", &nodes)
        || !metadata_number(metadata, "record_size", &bits)
        || !metadata_number(metadata, "ip_version", &version))
        return "its metadata cannot be read";
    if (major != 2)
        return "it is not of version 2 of the format";
    if (bits != 24 && bits != 28 && bits != 32)
        return "its records have neither 24, 28 nor 32 bits";
    if (version != 4 && version != 6)
        return "its addresses are neither of IPv4 nor of IPv6";
    if (nodes > UINT32_MAX)
        return "its tree is too large";
    self->nodes = (uint32_t)nodes;
    self->record_bits = (unsigned)bits;
    self->version = (unsigned)version;
    return NULL;
}

int mmdb_open(mmdb_t *self, const void *bytes, size_t len, const char **ret_why)
{
    static const unsigned char zeros[(IPV6_BITS - IPV4_BITS) / 8];
    const unsigned char *begin = bytes, *end = find_metadata(bytes, len);
    mmdb_t metadata = {.data = end};
    uint64_t tree;

    *ret_why = "it has no marker of metadata: it is not whole, or no MaxMind DB";
    if (!end)
        return -EINVAL;
    metadata.data_len = len - (size_t)(end - begin);
    *self = (mmdb_t){.bytes = begin};
    *ret_why = read_metadata(self, &metadata);
    if (*ret_why)
        return -EINVAL;
    tree = (uint64_t)self->nodes * (self->record_bits / 4);
    *ret_why = "its tree is larger than the file";
    if (tree + SEPARATOR > (uint64_t)(end - begin) - MARKER_LEN)
        return -EINVAL;
    self->data = begin + tree + SEPARATOR;
    self->data_len = (size_t)(end - self->data) - MARKER_LEN;
    if (self->version == 6)
        self->ipv4_start = walk_tree(self, 0, zeros, IPV6_BITS - IPV4_BITS);
    *ret_why = NULL;
    return 0;
}
