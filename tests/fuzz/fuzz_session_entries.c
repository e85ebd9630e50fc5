/* A delta of the session log, whatever a writer says: a hash that ends is the one of its digits, and
 * what cannot be read ends nothing. */
#include "services/edge/control/session_entries.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count;

static void on_ended(const unsigned char *hash, const char *hex)
{
    char text[2 * SESSION_ENTRY_HASH + 1];

    for (size_t i = 0; i < SESSION_ENTRY_HASH; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    if (memcmp(text, hex, SESSION_ENTRY_HEX) != 0)
        abort();
    count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t others;
    bool read;

    count = 0;
    read = session_entries_read(data, size, on_ended, &others);
    if (!read && (count || others))
        abort();
    if (count + others > size) /* each takes a byte at least */
        abort();
    return 0;
}
