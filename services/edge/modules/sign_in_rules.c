#include "services/edge/modules/sign_in_rules.h"

#include "common/base/block.h"

#include <string.h>
#include <strings.h>

enum { TARGET_MAX = 2048, CHANGED_MS = 10000 };

static bool is_word(sign_in_text_t text, const char *word)
{
    return text.len == strlen(word) && !strncasecmp(text.at, word, text.len);
}

static bool has_word(sign_in_text_t text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++)
        if (!strncasecmp(text.at + i, word, len))
            return true;
    return false;
}

static bool is_opened(const sign_in_asked_t *asked, bool may_post)
{
    if (!(asked->get || (asked->post && may_post)) || asked->upgrade)
        return false;
    if (!asked->fetch_mode.at && !asked->fetch_dest.at)
        return asked->accept.at && has_word(asked->accept, "text/html");
    return asked->fetch_mode.at && is_word(asked->fetch_mode, "navigate")
           && (!asked->fetch_dest.at || is_word(asked->fetch_dest, "document")
               || is_word(asked->fetch_dest, "iframe"));
}

bool sign_in_navigates(const sign_in_asked_t *asked)
{
    return is_opened(asked, false);
}

bool sign_in_is_framed(const sign_in_asked_t *asked)
{
    return asked->fetch_dest.at && !is_word(asked->fetch_dest, "document");
}

bool sign_in_may_begin(const sign_in_asked_t *asked)
{
    return asked->get && !asked->upgrade
           && (!asked->fetch_dest.at || is_word(asked->fetch_dest, "document")
               || is_word(asked->fetch_dest, "iframe") || is_word(asked->fetch_dest, "frame"));
}

bool sign_in_may_leave(const sign_in_asked_t *asked, sign_in_text_t site)
{
    return is_opened(asked, true)
           && (!site.at || is_word(site, "same-origin") || is_word(site, "none"));
}

/* Is it "https://" and the host? */
static bool is_own_origin(sign_in_text_t origin, sign_in_text_t host)
{
    static const char scheme[] = "https://";
    const size_t skip = sizeof(scheme) - 1;

    return origin.len == skip + host.len && !memcmp(origin.at, scheme, skip)
           && !memcmp(origin.at + skip, host.at, host.len);
}

bool sign_out_is_asked(const sign_in_asked_t *asked, const sign_out_from_t *from)
{
    if (asked->upgrade || has_word(from->purpose, "pre"))
        return false;
    if (!from->site.at && !asked->fetch_mode.at && !asked->fetch_dest.at)
        return asked->post ? !from->origin.at || is_own_origin(from->origin, from->host)
                           : is_opened(asked, false);
    if (from->site.at && is_word(from->site, "same-origin"))
        return !is_word(asked->fetch_mode, "no-cors");
    return asked->fetch_mode.at && is_word(asked->fetch_mode, "navigate")
           && (!asked->fetch_dest.at || is_word(asked->fetch_dest, "document"));
}

bool sign_out_is_blind(const sign_in_asked_t *asked, const sign_out_from_t *from)
{
    return asked->post && from->site.at && is_word(from->site, "cross-site");
}

sign_in_path_t sign_in_path(const char *path, size_t len, const char *prefix, size_t prefix_len)
{
    static const struct {
        const char *name;
        sign_in_path_t path;
    } paths[] = {{"authn", SIGN_IN_BEGIN}, {"done", SIGN_IN_DONE}, {"logout", SIGN_IN_LOGOUT}};
    static const char own[] = "/auth/";

    if (prefix_len && prefix[prefix_len - 1] == '/')
        prefix_len--;
    if (len < prefix_len + sizeof(own) - 1 || memcmp(path, prefix, prefix_len) != 0
        || memcmp(path + prefix_len, own, sizeof(own) - 1) != 0)
        return SIGN_IN_UPSTREAM;
    path += prefix_len + sizeof(own) - 1;
    len -= prefix_len + sizeof(own) - 1;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (strlen(paths[i].name) == len && !memcmp(path, paths[i].name, len))
            return paths[i].path;
    return SIGN_IN_NOWHERE;
}

/* 0 is for ever. */
static bool is_expired(const session_t *session, int64_t now_ms)
{
    return session->expires_ms && now_ms >= session->expires_ms;
}

static bool is_idle(const session_t *session, int64_t now_ms)
{
    return session->inactivity_s
           && now_ms - session->last_active_ms >= session->inactivity_s * (int64_t)1000;
}

static bool is_due(const session_t *session, const unsigned char *bound, int64_t now_ms)
{
    return memcmp(session->bound, bound, SESSION_BOUND_BYTES) != 0
           || (session->due_ms && now_ms >= session->due_ms);
}

sign_in_verdict_t sign_in_judge(const session_t *session, const unsigned char *bound,
                                int64_t now_ms, bool in_touch, int64_t trusted_ms)
{
    if (is_expired(session, now_ms))
        return SIGN_IN_OVER;
    if (is_due(session, bound, now_ms))
        return SIGN_IN_ASK_RULES;
    if (is_idle(session, now_ms) || !in_touch || session->asked_ms < trusted_ms)
        return SIGN_IN_ASK;
    return SIGN_IN_ADMIT;
}

bool sign_in_is_trusted(const session_t *session, const unsigned char *bound, int64_t now_ms,
                        int64_t last_ms, int64_t now_clock_ms, int64_t trust_ms)
{
    return !is_expired(session, now_ms) && !is_idle(session, now_ms)
           && !is_due(session, bound, now_ms) && now_clock_ms - last_ms < trust_ms;
}

bool sign_in_is_doubted_long(int64_t doubted_ms, int64_t now_clock_ms, int64_t trust_ms)
{
    return doubted_ms && now_clock_ms - doubted_ms >= trust_ms;
}

int64_t sign_in_trust_ms(bool is_same, bool is_there, int64_t trust_ms)
{
    if (is_same)
        return trust_ms;
    if (!is_there)
        return 0;
    return trust_ms < CHANGED_MS ? trust_ms : CHANGED_MS;
}

int64_t sign_in_local_time(int64_t time_ms, int64_t ahead_ms)
{
    if (!time_ms)
        return 0;
    return time_ms > ahead_ms ? time_ms - ahead_ms : 1;
}

int64_t sign_in_identity_time(int64_t time_ms, int64_t ahead_ms)
{
    return sign_in_local_time(time_ms, -ahead_ms);
}

/* Sixteen characters that a header says as they are. */
static bool is_plain_block(block_t c)
{
    return !block_any(~block_within(c, 0x20, 0x5f) | (block_t)(c == '%') | (block_t)(c == ','));
}

bool sign_in_is_plain(const char *text, size_t len)
{
    char rest[BLOCK_BYTES];
    const char *end = text + len;

    if (!len)
        return true;
    if (text[0] == ' ' || end[-1] == ' ')
        return false;
    if (len >= BLOCK_BYTES) { /* the last block may have bytes of the one before it */
        for (; end - text > BLOCK_BYTES; text += BLOCK_BYTES)
            if (!is_plain_block(block_load(text)))
                return false;
        return is_plain_block(block_load(end - BLOCK_BYTES));
    }
    memset(rest, ' ', BLOCK_BYTES);
    memcpy(rest, text, len);
    return is_plain_block(block_load(rest));
}

bool sign_in_is_all_plain(const session_t *session)
{
    const char *text = session->text;

    for (int i = 0; i < SESSION_GROUPS; text += session->lens[i++])
        if (session->lens[i] && (text[0] == ' ' || text[session->lens[i] - 1] == ' '))
            return false;
    return sign_in_is_plain(session->text, (size_t)(text - session->text));
}

static size_t put_part(char *out, const char *text, size_t len, bool of_list)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;

    if (len && sign_in_is_plain(text, len)) {
        memcpy(out, text, len);
        return len;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool at_end = i == 0 || i == len - 1;

        if (c < 0x20 || c >= 0x7f || c == '%' || (c == ',' && of_list) || (c == ' ' && at_end)) {
            out[used++] = '%';
            out[used++] = digits[c >> 4];
            out[used++] = digits[c & 15];
        } else {
            out[used++] = (char)c;
        }
    }
    return used;
}

size_t sign_in_value(char *out, const char *text, size_t len, bool is_list)
{
    const char *end = text + len, *stop;
    size_t used = 0;

    if (!is_list)
        return put_part(out, text, len, false);
    for (; text < end; text = stop + 1) {
        stop = memchr(text, '\0', (size_t)(end - text));
        stop = stop ? stop : end;
        if (used || text > end - len)
            out[used++] = ',';
        used += put_part(out + used, text, (size_t)(stop - text), true);
    }
    return used;
}

bool sign_in_is_target(const char *text, size_t len)
{
    if (!len || len > TARGET_MAX || text[0] != '/'
        || (len > 1 && (text[1] == '/' || text[1] == '\\')))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= 0x20 || text[i] == 0x7f || text[i] == '\\')
            return false;
    return true;
}
