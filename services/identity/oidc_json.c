/* Bytes from outside: JSON, numbers, base64url, URLs. */
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <sodium.h>
#include <string.h>

static int depth_of(const json_t *value, int limit)
{
    int deepest = 0, depth;
    const char *name;
    json_t *item;
    size_t i;

    if (!limit || !(json_is_object(value) || json_is_array(value)))
        return 0;
    json_object_foreach((json_t *)value, name, item)
    {
        depth = depth_of(item, limit - 1);
        deepest = depth > deepest ? depth : deepest;
    }
    json_array_foreach(value, i, item)
    {
        depth = depth_of(item, limit - 1);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

json_t *oidc_json(const char *text, size_t len)
{
    json_t *value;

    memory_json_begin_outside(OIDC_JSON_MEMORY);
    value = json_loadb(text ? text : "", text ? len : 0, JSON_REJECT_DUPLICATES, NULL);
    if (memory_json_end_outside() || !json_is_object(value)
        || depth_of(value, OIDC_JSON_DEPTH + 1) > OIDC_JSON_DEPTH) {
        json_decref(value);
        return NULL;
    }
    return value;
}

static bool is_text(const char *text, size_t len, size_t max)
{
    if (!len || len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

const char *oidc_text(const json_t *object, const char *name, size_t max)
{
    const json_t *value = json_object_get(object, name);

    return json_is_string(value)
                   && is_text(json_string_value(value), json_string_length(value), max)
               ? json_string_value(value)
               : NULL;
}

bool oidc_time(const json_t *value, int64_t *ret_s)
{
    const double max = 253402300799; /* 9999-12-31T23:59:59Z */

    if (json_is_integer(value)) {
        *ret_s = json_integer_value(value);
        return *ret_s >= 0 && *ret_s <= (int64_t)max;
    }
    if (!json_is_real(value) || !(json_real_value(value) >= 0) || json_real_value(value) > max)
        return false;
    *ret_s = (int64_t)json_real_value(value);
    return true;
}

bool oidc_lists(const json_t *object, const char *name, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(object, name), i, item)
    {
        if (json_is_string(item) && !strcmp(json_string_value(item), text))
            return true;
    }
    return false;
}

/* libsodium 1.0.18 takes some bytes above 127 for characters of the alphabet. */
static bool is_base64url(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'
              || c == '_'))
            return false;
    }
    return len > 0;
}

unsigned char *oidc_base64url(const char *text, size_t len, size_t *ret_len)
{
    unsigned char *bytes = len <= OIDC_KEYS_MAX && is_base64url(text, len) ? malloc(len) : NULL;

    if (bytes
        && sodium_base642bin(bytes, len - 1, text, len, NULL, ret_len, NULL,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING)) {
        free(bytes);
        return NULL;
    }
    if (bytes)
        bytes[*ret_len] = '\0';
    return bytes;
}

bool oidc_is_visible(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < 0x21 || *text > 0x7e)
            return false;
    return true;
}

bool oidc_is_url(const char *text)
{
    static const char scheme[] = "https://";
    const char *host = text + sizeof(scheme) - 1;
    size_t len;

    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0 || !oidc_is_visible(text)
        || strlen(text) > OIDC_URL_MAX || strpbrk(text, "#\\\"<>^`{|}"))
        return false;
    len = strcspn(host, "/?");
    return len && *host != ':' && !memchr(host, '@', len);
}

bool oidc_same(const char *a, const char *b)
{
    size_t len = strlen(a);

    return len == strlen(b) && sodium_memcmp(a, b, len) == 0;
}
