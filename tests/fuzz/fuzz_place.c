/* Where an address is, by a database of any bytes: nothing outside of it is read, and no lookup takes
 * long. Input: 16 bytes of address, and the file. */
#include "common/place/mmdb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ADDRESS = 16 };

static const char *const paths[][3] = {
    {"country", "iso_code", NULL},
    {"location", "latitude", NULL},
    {"location", "accuracy_radius", NULL},
    {"autonomous_system_number", NULL},
    {"autonomous_system_organization", NULL},
    {NULL},
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_all(const mmdb_t *mmdb, size_t at)
{
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        mmdb_value_t value;

        if (mmdb_get(mmdb, at, paths[i], &value) && value.kind == MMDB_TEXT && value.len) {
            check((const unsigned char *)value.text >= mmdb->data
                  && (const unsigned char *)value.text + value.len <= mmdb->data + mmdb->data_len);
            check(value.text[value.len - 1] || true); /* ASan looks */
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *file;
    const char *why = NULL;
    mmdb_t mmdb;
    size_t at;

    if (size < ADDRESS)
        return 0;
    size -= ADDRESS;
    file = malloc(size + !size); /* of its own: ASan watches its end */
    memcpy(file, data + ADDRESS, size);
    if (mmdb_open(&mmdb, file, size, &why)) {
        check(why != NULL);
    } else {
        if (mmdb_find(&mmdb, data, 128, &at))
            read_all(&mmdb, at);
        if (mmdb_find(&mmdb, data, 32, &at))
            read_all(&mmdb, at);
        read_all(&mmdb, data[0]);
    }
    free(file);
    return 0;
}
