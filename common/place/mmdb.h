/* A MaxMind DB (version 2.0 of its format: maxmind.github.io/MaxMind-DB) in memory: what is known
 * of an address. The file is not believed: nothing is read outside of it, nothing recurses, and
 * what one lookup may read is bounded, whatever the file says. (libmaxminddb recurses once for each
 * level of a value that it passes over: a file of 1 MB ends a process that looks up by it.) */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mmdb {
    const unsigned char *bytes; /* of the whole file; borrowed */
    const unsigned char *data;  /* values; offsets are from here */
    size_t data_len;
    uint32_t nodes;       /* of the tree, which the file begins with */
    unsigned record_bits; /* 24, 28 or 32: two records are a node */
    unsigned version;     /* 4 or 6: of the addresses in the tree */
    uint64_t ipv4_start;  /* the record that a tree of version 6 has for ::/96 */
} mmdb_t;

typedef enum mmdb_kind {
    MMDB_TEXT,   /* text, len */
    MMDB_NUMBER, /* natural: an unsigned whole number */
    MMDB_REAL    /* real: a double or a float */
} mmdb_kind_t;

typedef struct mmdb_value {
    mmdb_kind_t kind;
    const char *text; /* any bytes; borrowed from the file's */
    size_t len;
    uint64_t natural;
    double real;
} mmdb_value_t;

/* Read what there is to know of the file. 0 | -EINVAL: it is none; why says what is wrong. */
int mmdb_open(mmdb_t *self, const void *bytes, size_t len, const char **ret_why);

/* Where the values of the address stand: 16 bytes of IPv6 or 4 of IPv4. Addresses that embed one of
 * IPv4 are not changed. False: nothing is known. */
bool mmdb_find(const mmdb_t *self, const unsigned char *address, unsigned bits, size_t *ret_at);

/* The value at this path of names, which ends with NULL, in the maps that begin at `at`. False: it
 * is not there, is none of the three kinds, or the file is broken there. */
bool mmdb_get(const mmdb_t *self, size_t at, const char *const *path, mmdb_value_t *ret_value);
