#include "services/edge/http/cookies.h"

#include "services/edge/table/cookie_names.h"
#include "common/base/block.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static cookie_text_t trimmed(const char *begin, const char *end)
{
    while (begin < end && is_space(*begin))
        begin++;
    while (end > begin && is_space(end[-1]))
        end--;
    return (cookie_text_t){begin, (size_t)(end - begin)};
}

/* The next pair from *at on, up to its ';' or the end; *at is behind it. Quotes mean nothing here:
 * RFC 6265 5.2 has no other separator, and what a reader that knows of quotes makes of one is no
 * more than a cookie that its client could have sent. */
static cookie_text_t next_pair(const char **at, const char *end)
{
    const char *begin = *at, *stop = memchr(begin, ';', (size_t)(end - begin));

    stop = stop ? stop : end;
    *at = stop < end ? stop + 1 : end;
    return (cookie_text_t){begin, (size_t)(stop - begin)};
}

/* The name of a pair, which without '=' is all of it. */
static cookie_text_t name_of(cookie_text_t pair, const char **value)
{
    const char *equals = memchr(pair.at, '=', pair.len);

    *value = equals ? equals + 1 : pair.at + pair.len;
    return trimmed(pair.at, equals ? equals : pair.at + pair.len);
}

bool cookies_next(cookie_text_t *line, cookie_text_t *name, cookie_text_t *value)
{
    const char *at = line->at, *end = line->at + line->len, *begin;
    cookie_text_t pair;

    if (!line->len)
        return false;
    pair = next_pair(&at, end);
    *name = name_of(pair, &begin);
    *value = trimmed(begin, pair.at + pair.len);
    *line = (cookie_text_t){at, (size_t)(end - at)};
    return true;
}

unsigned cookies_find(cookie_text_t line, cookie_text_t name, cookie_text_t *value)
{
    const char *at = line.at, *end = line.at + line.len, *begin;
    unsigned count = 0;

    while (at < end) {
        cookie_text_t pair = next_pair(&at, end), its_name = name_of(pair, &begin);

        if (its_name.len == name.len && !memcmp(its_name.at, name.at, name.len)) {
            *value = trimmed(begin, pair.at + pair.len);
            count++;
        }
    }
    return count;
}

static bool is_base64url(const char *text)
{
    block_t c = block_load(text);

    return !block_any(~(block_within(c | 0x20, 'a', 26) | block_within(c, '0', 10)
                        | (block_t)(c == '-') | (block_t)(c == '_')));
}

bool cookies_is_token(cookie_text_t value)
{
    return value.len == COOKIE_TOKEN_LEN && is_base64url(value.at)
           && is_base64url(value.at + BLOCK_BYTES)
           && is_base64url(value.at + COOKIE_TOKEN_LEN - BLOCK_BYTES);
}

/* Is the value one of a session or a nonce, be it in quotes (RFC 6265, 4.1.1)? */
static bool has_token(const char *value, const char *end)
{
    cookie_text_t text = trimmed(value, end);

    if (text.len == COOKIE_TOKEN_LEN + 2 && *text.at == '"' && text.at[text.len - 1] == '"')
        text = (cookie_text_t){text.at + 1, COOKIE_TOKEN_LEN};
    return cookies_is_token(text);
}

/* Is the pair, as whoever reads it may take it, one that is ours? A cookie without a name is sent
 * as its value alone, which is then taken for a pair (RFC 6265bis, 5.8.3). */
static bool is_ours(cookie_text_t pair, cookies_ours_t *ours, const void *names)
{
    char folded[COOKIE_NAME_MAX];
    const char *value, *end = pair.at + pair.len;
    cookie_text_t name = name_of(pair, &value);
    size_t len;

    while (!name.len && value < end)
        name = name_of((cookie_text_t){value, (size_t)(end - value)}, &value);
    while (name.len && (*name.at == '"' || *name.at == '$')) { /* RFC 2109's forms */
        name.at++;
        name.len--;
    }
    len = cookie_name_fold(folded, name.at, name.len);
    return len && ours(names, folded, len, has_token(value, end));
}

bool cookies_have(cookie_text_t line, cookies_ours_t *ours, const void *names)
{
    const char *at = line.at, *end = line.at + line.len;

    while (at < end)
        if (is_ours(next_pair(&at, end), ours, names))
            return true;
    return false;
}

size_t cookies_cut(char *out, cookie_text_t line, cookies_ours_t *ours, const void *names)
{
    const char *at = line.at, *end = line.at + line.len;
    size_t used = 0;
    bool first = true;

    while (at < end) {
        cookie_text_t pair = next_pair(&at, end);

        if (is_ours(pair, ours, names))
            continue;
        if (!first)
            out[used++] = ';';
        else if (pair.at != line.at) /* the space behind the ';' of what was cut */
            while (pair.len && is_space(*pair.at)) {
                pair.at++;
                pair.len--;
            }
        if (pair.len)
            memmove(out + used, pair.at, pair.len); /* what was written is before it */
        used += pair.len;
        first = false;
    }
    if (!first && line.len && line.at[line.len - 1] == ';' && used + 1 <= line.len)
        out[used++] = ';';
    return used;
}
