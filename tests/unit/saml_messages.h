/* Messages of tests/unit/saml, what is asked about them, and mutants. */
#pragma once

#include "common/base/cleanup.h"
#include "services/xml/verify.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NOW_MS 1780000000000

enum { FILE_MAX = 64 << 10, MUTANT_MAX = 2 * FILE_MAX };

static inline char *read_file(const char *name)
{
    char path[256], *text = calloc(1, FILE_MAX);
    FILE *file;

    snprintf(path, sizeof(path), "tests/unit/saml/%s.xml", name);
    file = fopen(path, "r");
    cr_assert(file, "%s", path);
    cr_assert_lt(fread(text, 1, FILE_MAX - 1, file), FILE_MAX - 1);
    fclose(file);
    return text;
}

/* What postern-saml is asked about a message; key: of its content, base64; NULL: none. */
static inline json_t *question(const char *metadata, const char *xml, size_t len, const char *key)
{
    size_t size = sodium_base64_encoded_len(len, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(size);
    json_t *made;

    sodium_bin2base64(text, size, (const unsigned char *)xml, len, sodium_base64_VARIANT_ORIGINAL);
    made = json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:b, s:b}}",
                     "metadata", metadata, "message", text, "binding", "post", "expect", "kind",
                     "response", "destination", "https://idp.example.test/saml/acs", "recipient",
                     "https://idp.example.test/saml/acs", "audience",
                     "https://idp.example.test/saml/rt_1", "in_response_to", "_request1", "now_ms",
                     (json_int_t)NOW_MS, "skew_ms", (json_int_t)60000, "nameid_format", "",
                     "require_authn_statement", 1, "allow_unsolicited", 0);
    if (key)
        json_object_set_new(made, "content_key", json_string(key));
    free(text);
    return made;
}

/* What the message says; NULL: it is refused. */
static inline json_t *said_by(const char *metadata, const char *xml, size_t len, const char *key)
{
    _cleanup_(json_clear_ref) json_t *body = question(metadata, xml, len, key);
    _cleanup_(problem_done) problem_t problem = {0};
    json_t *answer = NULL;
    int r = verify_message(body, &answer, &problem);

    cr_assert_eq(r != 0, answer == NULL);
    cr_assert(r == 0 || (r == problem.code && *problem.msg), "%d %s", r, problem.msg);
    return answer;
}

static uint32_t drawn = 20260131;

static inline size_t draw(size_t below)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 17;
    drawn ^= drawn << 5;
    return below ? drawn % below : 0;
}

/* Puts a part in the place of another one; what does not fit is left as it is. */
static inline void splice(char *text, size_t *len, size_t at, size_t gone, const char *part,
                          size_t part_len)
{
    if (*len - gone + part_len >= MUTANT_MAX)
        return;
    memmove(text + at + part_len, text + at + gone, *len - at - gone);
    memcpy(text + at, part, part_len);
    *len += part_len - gone;
}

/* Where a tag begins, or the end. */
static inline size_t some_tag(const char *text, size_t len)
{
    size_t at = draw(len);
    const char *tag = memchr(text + at, '<', len - at);

    return tag ? (size_t)(tag - text) : len;
}

static inline void mutate_once(char *text, size_t *len)
{
    static const char *const words[] = {
        "<!-- -->",
        "&#10;",
        "&lt;",
        "<![CDATA[x]]>",
        " ID=\"_assertion1\"",
        "admin",
        "<x/>",
        " ",
        "&amp;",
        "#",
        "xmlns=\"\"",
        "ds:",
        "saml:",
        "<saml:NameID>admin</saml:NameID>",
        "\xc2\xa0",
        "0",
    };
    size_t at = draw(*len), other = some_tag(text, *len), from = some_tag(text, *len);
    size_t part_len = draw(other > from ? other - from + 1 : 64);
    const char *word = words[draw(LEN(words))];
    char part[MUTANT_MAX];

    part_len = from + part_len > *len ? *len - from : part_len;
    memcpy(part, text + from, part_len);
    switch (draw(6)) {
    case 0:
        text[at] = (char)(text[at] ^ 1 << draw(7));
        break;
    case 1:
        splice(text, len, at, draw(*len - at < 32 ? *len - at : 32), "", 0);
        break;
    case 2: /* a part once more */
        splice(text, len, some_tag(text, *len), 0, part, part_len);
        break;
    case 3: /* moved */
        splice(text, len, from, part_len, "", 0);
        splice(text, len, some_tag(text, *len), 0, part, part_len);
        break;
    case 4:
        splice(text, len, at, 0, word, strlen(word));
        break;
    default:
        splice(text, len, some_tag(text, *len), 0, word, strlen(word));
    }
}
