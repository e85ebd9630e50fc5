#include "services/edge/modules/webhook_json.h"

#include <string.h>

static void skip_blanks(webhook_text_t *text)
{
    while (text->len && *text->at && strchr(" \t\r\n", *text->at)) {
        text->at++;
        text->len--;
    }
}

static bool take_character(webhook_text_t *text, char c)
{
    skip_blanks(text);
    if (!text->len || *text->at != c)
        return false;
    text->at++;
    text->len--;
    return true;
}

/* The string that begins here, with its quotes. */
static bool take_string(webhook_text_t *text, webhook_text_t *out)
{
    size_t n = 1;

    skip_blanks(text);
    if (!text->len || *text->at != '"')
        return false;
    while (n < text->len && text->at[n] != '"') {
        if ((unsigned char)text->at[n] < 0x20)
            return false;
        n += text->at[n] == '\\' ? 2 : 1;
    }
    if (n >= text->len)
        return false;
    *out = (webhook_text_t){text->at, n + 1};
    text->at += n + 1;
    text->len -= n + 1;
    return true;
}

/* An object or an array, as far as the bracket that closes it. */
static bool take_container(webhook_text_t *text)
{
    webhook_text_t string;
    size_t depth = 0;

    do {
        char c;

        if (!text->len)
            return false;
        c = *text->at;
        if (c == '"') {
            if (!take_string(text, &string))
                return false;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        text->at++;
        text->len--;
    } while (depth);
    return true;
}

/* A string, a container, or the characters of a number or a name. */
static bool take_value(webhook_text_t *text, webhook_text_t *out)
{
    skip_blanks(text);
    out->at = text->at;
    if (!text->len)
        return false;
    if (*text->at == '"')
        return take_string(text, out);
    if (*text->at == '{' || *text->at == '[') {
        if (!take_container(text))
            return false;
        out->len = (size_t)(text->at - out->at);
        return true;
    }
    while (text->len && *text->at && !strchr(" \t\r\n,:{}[]\"", *text->at)) {
        text->at++;
        text->len--;
    }
    out->len = (size_t)(text->at - out->at);
    return out->len > 0;
}

/* The member name of the object; all members are looked at. */
static bool find_member(webhook_text_t object, webhook_text_t name, webhook_text_t *out)
{
    bool found = false;

    if (!take_character(&object, '{') || take_character(&object, '}'))
        return false;
    do {
        webhook_text_t key, value;

        if (!take_string(&object, &key) || !take_character(&object, ':')
            || !take_value(&object, &value))
            return false;
        if (key.len != name.len + 2 || memcmp(key.at + 1, name.at, name.len) != 0)
            continue;
        if (found)
            return false;
        found = true;
        *out = value;
    } while (take_character(&object, ','));
    return take_character(&object, '}') && found;
}

bool webhook_json_find(webhook_text_t json, const char *path, webhook_text_t *out)
{
    *out = json;
    while (*path == '.') {
        webhook_text_t name = {path + 1, strcspn(path + 1, ".")}, inner = *out;

        if (!find_member(inner, name, out))
            return false;
        path += 1 + name.len;
    }
    return true;
}

bool webhook_json_plain(webhook_text_t json, const char *path, webhook_text_t *out)
{
    if (!webhook_json_find(json, path, out) || !out->len)
        return false;
    if (*out->at == '"') {
        out->at++;
        out->len -= 2;
        return !memchr(out->at, '\\', out->len);
    }
    return *out->at >= '0' && *out->at <= '9';
}

bool webhook_json_empty(webhook_text_t json, const char *path)
{
    webhook_text_t array;

    return webhook_json_find(json, path, &array) && take_character(&array, '[')
           && take_character(&array, ']');
}
