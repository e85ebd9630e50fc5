#include "services/edge/http/forwarded.h"

#include <stdbool.h>
#include <string.h>

typedef struct {
    const char *name; /* without the '*' */
    size_t len;
    bool prefix;
    forwarded_t who;
} row_t;

static char own_prefix[FORWARDED_PREFIX_MAX]; /* in lower case */

static row_t rows[] = {
#define FORWARDED(text, who, what)                                                                 \
    {text, sizeof(text) - 1 - ((text)[sizeof(text) - 2] == '*'), (text)[sizeof(text) - 2] == '*',  \
     FORWARDED_##who},
#include "proto/forwarded.def"
    {own_prefix, 0, true, FORWARDED_NEVER}, /* forwarded_begin; 0: no name begins so */
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), KEYS = 32 * 32 * 32 };

/* A hash table of rows by the first three letters after an optional "x-": first and next_row hold
 * row numbers from 1, 0 ends a chain; within a chain rows keep the table's order. */
static unsigned char first[KEYS + 1], next_row[ROWS];
_Static_assert(ROWS < 256, "a row's number is one byte");

static unsigned char fold(unsigned char c)
{
    return c == '_' ? '-' : c;
}

/* The slot of a name in first; KEYS for names that are too short. */
static unsigned key_of(const unsigned char *name, size_t len)
{
    if (len > 2 && name[0] == 'x' && fold(name[1]) == '-') {
        name += 2;
        len -= 2;
    }
    return len < 3 ? KEYS
                   : (name[0] & 31u) << 10 | (fold(name[1]) & 31u) << 5 | (fold(name[2]) & 31u);
}

static void make_keys(void)
{
    memset(first, 0, sizeof(first));
    for (unsigned i = ROWS; i-- > 0;) {
        unsigned key = key_of((const unsigned char *)rows[i].name, rows[i].len);

        next_row[i] = first[key];
        first[key] = (unsigned char)(i + 1);
    }
}

static bool is(const row_t *row, const unsigned char *name, size_t len)
{
    if (!row->len || len < row->len || (len > row->len && !row->prefix))
        return false;
    for (size_t i = 0; i < row->len; i++)
        if (fold(name[i]) != (unsigned char)row->name[i])
            return false;
    return true;
}

static bool made;

void forwarded_begin(const char *prefix, size_t len)
{
    row_t *row = &rows[ROWS - 1];

    row->len = len < FORWARDED_PREFIX_MAX ? len : FORWARDED_PREFIX_MAX;
    for (size_t i = 0; i < row->len; i++)
        own_prefix[i] = prefix[i] >= 'A' && prefix[i] <= 'Z' ? (char)(prefix[i] + ('a' - 'A'))
                                                             : (char)fold((unsigned char)prefix[i]);
    made = false;
}

forwarded_t forwarded_of(const unsigned char *name, size_t len)
{
    unsigned key = key_of(name, len);

    if (!made) {
        make_keys();
        made = true;
    }
    for (unsigned at = first[key]; at; at = next_row[at - 1])
        if (is(&rows[at - 1], name, len))
            return rows[at - 1].who;
    return FORWARDED_NONE;
}
