#include "services/edge/table/cookie_names.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <string.h>

/* A prefix, folded, and how many modules have it. */
typedef struct prefix {
    size_t uses;
} prefix_t;

static char fold_character(char c)
{
    if (c == '_' || c == ' ' || c == '\t')
        return '.';
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = fold_character(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t cookie_name_fold(char out[COOKIE_NAME_MAX], const char *name, size_t len)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (c == '%' && len - i > 2 && digit_of(name[i + 1]) >= 0 && digit_of(name[i + 2]) >= 0) {
            c = (char)((unsigned)digit_of(name[i + 1]) << 4 | (unsigned)digit_of(name[i + 2]));
            i += 2;
        }
        if (used == COOKIE_NAME_MAX)
            return 0;
        out[used++] = fold_character(c);
    }
    return used;
}

/* Has every edge cookies behind it, as proto/types.def and table/sign_in.c call them where a module
 * has no prefix of its own? */
static bool is_default(const char *folded, size_t len)
{
    static const char prefix[] = "postern.";

    return len == sizeof(prefix) - 1 && !memcmp(folded, prefix, len);
}

/* How much of it stands before the module's prefix: "__Host-", folded. */
static size_t host_len(const char *folded, size_t len)
{
    static const char host[] = "..host-";

    return len > sizeof(host) - 1 && !memcmp(folded, host, sizeof(host) - 1) ? sizeof(host) - 1 : 0;
}

void cookie_names_add(strmap_t **self, const char *prefix)
{
    char folded[COOKIE_NAME_MAX];
    size_t len = cookie_name_fold(folded, prefix, strlen(prefix));
    prefix_t *known;

    if (!len || is_default(folded, len))
        return;
    if (!*self)
        *self = strmap_new();
    known = strmap_get(*self, folded, len);
    if (!known) {
        known = slab_alloc(sizeof(*known));
        strmap_put(*self, folded, len, known);
    }
    known->uses++;
}

void cookie_names_drop(strmap_t **self, const char *prefix)
{
    char folded[COOKIE_NAME_MAX];
    size_t len = cookie_name_fold(folded, prefix, strlen(prefix));
    prefix_t *known = len && *self ? strmap_get(*self, folded, len) : NULL;

    if (!len || is_default(folded, len))
        return;
    INVARIANT(known && known->uses > 0); /* each is added once, and dropped once */
    if (--known->uses)
        return;
    strmap_del(*self, folded, len);
    slab_free(known);
    if (strmap_count(*self) == 0)
        strmap_destroy(self);
}

void cookie_names_destroy(strmap_t **self)
{
    prefix_t *known;

    while (*self && (known = strmap_pop(*self)))
        slab_free(known);
    strmap_destroy(self);
}

/* The length of a name without a dot and so many digits at its end. */
static size_t without_digits(const char *name, size_t len, size_t digits)
{
    if (len <= digits + 1 || name[len - digits - 1] != '.')
        return len;
    for (size_t i = len - digits; i < len; i++)
        if (digit_of(name[i]) < 0)
            return len;
    return len - digits - 1;
}

static bool ends_with(const char *name, size_t len, const char *end, size_t end_len)
{
    return len > end_len && !memcmp(name + len - end_len, end, end_len);
}

bool cookie_name_is_nonce(const char *name, size_t len, const char *own, size_t own_len,
                          const char **ret_digits)
{
    if (len < own_len || memcmp(name, own, own_len) != 0
        || (len > own_len && without_digits(name, len, 1) != own_len
            && without_digits(name, len, COOKIE_NONCE_DIGITS) != own_len))
        return false;
    *ret_digits = len > own_len ? name + own_len + 1 : NULL;
    return true;
}

/* The length of a folded name without the digits of a nonce. */
static size_t bare_len(const char *folded, size_t len)
{
    size_t bare = without_digits(folded, len, 1);

    return bare < len && ends_with(folded, bare, "nonce", 5)
               ? bare
               : without_digits(folded, len, COOKIE_NONCE_DIGITS);
}

bool cookie_names_have(const strmap_t *self, const char *folded, size_t len, bool has_token)
{
    static const char *const ends[] = {"session", "nonce"};
    size_t skip = host_len(folded, len);

    folded += skip;
    len = bare_len(folded, len - skip);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t end = strlen(ends[i]);

        if (ends_with(folded, len, ends[i], end))
            return (skip && has_token) || is_default(folded, len - end)
                   || (self && strmap_get(self, folded, len - end));
    }
    return false;
}
