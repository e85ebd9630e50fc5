/* Cookies of a request, as any client sends them: what is left of a line has none of the names. */
#include "services/edge/http/cookies.h"
#include "services/edge/table/cookie_names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NAME  "__Host-postern.session"
#define NONCE "__Host-postern.nonce"
#define OTHER "__Host-x.nonce"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_ours(const void *names, const char *folded, size_t len, bool has_token)
{
    return cookie_names_have(NULL, folded, len, has_token)
           || (len == 7 && !memcmp(folded, names, len)); /* the sanitizer sees both lengths */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cookie_text_t names[] = {{NAME, sizeof(NAME) - 1}, {"a.nonce", 7}};
    cookie_text_t line = {(const char *)data, size}, value = {NULL, 0};
    cookie_text_t rest = line, name, each;
    const char *digits;
    unsigned count = 0;
    char *out = malloc(size + 1), *in_place = malloc(size + 1);
    size_t len, again;

    if (!out || !in_place) {
        free(out);
        free(in_place);
        return 0;
    }
    while (cookies_next(&rest, &name, &each)) {
        count += name.len == names[0].len && !memcmp(name.at, names[0].at, name.len);
        if (each.at < line.at || each.at + each.len > line.at + size)
            abort();
    }
    if (count != cookies_find(line, names[0], &value))
        abort(); /* one of them has passed over a cookie */
    if (cookies_find(line, names[0], &value)) {
        if (value.at < line.at || value.at + value.len > line.at + size)
            abort();
        (void)cookies_is_token(value);
    }
    len = cookies_cut(out, line, is_ours, "a.nonce");
    if (len > size || (len < size) != cookies_have(line, is_ours, "a.nonce"))
        abort();
    line = rest = (cookie_text_t){out, len};
    while (cookies_next(&rest, &name, &each))
        if (cookie_name_is_nonce(name.at, name.len, NONCE, sizeof(NONCE) - 1, &digits)
            || (cookie_name_is_nonce(name.at, name.len, OTHER, sizeof(OTHER) - 1, &digits)
                && cookies_is_token(each)))
            abort(); /* it is read as a nonce; OTHER: of a module that has another prefix now */
    if (cookies_find(line, names[0], &value) || cookies_find(line, names[1], &value))
        abort(); /* it would go upstream */
    again = cookies_cut(out, line, is_ours, "a.nonce");
    if (again != len)
        abort(); /* what is left, nothing is to be cut out of */
    if (size) {
        memcpy(in_place, data, size);
        again = cookies_cut(in_place, (cookie_text_t){in_place, size}, is_ours, "a.nonce");
        if (again != len || memcmp(in_place, out, len) != 0)
            abort();
    }
    free(out);
    free(in_place);
    return 0;
}
