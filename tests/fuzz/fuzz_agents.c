/* user_agent_filter: expressions that tenants wrote, headers that anybody sent. A list says the same
 * as its expressions one by one. */
#include "common/codec/regex.h"
#include "services/edge/modules/agents.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATTERNS_MAX = 4 };

static void check(bool holds)
{
    if (!holds)
        abort();
}

static msgpack_object text_of(const char *text)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_STR};

    object.via.str.ptr = text;
    object.via.str.size = (uint32_t)strlen(text);
    return object;
}

/* {name: patterns, other: [""]}, which matches everything; other NULL: only the first. */
static agents_t *agents_of(const char *name, msgpack_object *patterns, size_t count,
                           const char *other, bool *bad)
{
    msgpack_object every = text_of(""), document = {.type = MSGPACK_OBJECT_MAP};
    msgpack_object_kv pairs[] = {{text_of(name), {.type = MSGPACK_OBJECT_ARRAY}},
                                 {text_of(other ? other : ""), {.type = MSGPACK_OBJECT_ARRAY}}};

    pairs[0].val.via.array.size = (uint32_t)count;
    pairs[0].val.via.array.ptr = patterns;
    pairs[1].val.via.array.size = 1;
    pairs[1].val.via.array.ptr = &every;
    document.via.map.size = other ? 2 : 1;
    document.via.map.ptr = pairs;
    return agents_parse(&document, bad);
}

/* Does one of the expressions, each compiled by itself, match text? */
static bool is_matched(const msgpack_object *patterns, size_t count, const char *text, size_t len)
{
    bool found = false;
    char why[80];

    for (size_t i = 0; i < count; i++) {
        regex_t *regex = NULL;

        check(!regex_new(&regex, patterns[i].via.str.ptr, why, sizeof(why)));
        found = found || regex_search(regex, text, len);
        regex_destroy(&regex);
    }
    return found;
}

static void try_list(msgpack_object *patterns, size_t count, const char *text, size_t len)
{
    bool bad = false, also_bad = false, ascii = true;
    agents_t *allow = agents_of("allow", patterns, count, "deny", &bad),
             *deny = agents_of("deny", patterns, count, NULL, &also_bad);
    bool allowed, passed;

    for (size_t i = 0; i < len; i++)
        ascii = ascii && (unsigned char)text[i] < 0x80;
    check(bad == also_bad);
    if (!bad) {
        allowed = agents_permit(allow, text, len);
        passed = agents_permit(deny, text, len);
        check(!(allowed && passed) && (len || !passed) && !agents_permit(deny, NULL, 0));
        if (len > AGENT_MAX)
            check(!allowed && !passed);
        else if (ascii) /* what other bytes are judged as is agents_permit's own */
            check(allowed == is_matched(patterns, count, text, len) && passed == (len && !allowed));
    }
    agents_free(allow);
    agents_free(deny);
    check(agents_lists() == 0);
}

/* Up to four lines of expressions, an empty line, and the header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    msgpack_object patterns[PATTERNS_MAX];
    char *all = malloc(size + 1), *at = all, *end;
    size_t count = 0;

    memcpy(all, data, size);
    all[size] = '\0';
    while (count < PATTERNS_MAX && (end = strchr(at, '\n'))) {
        *end = '\0';
        if (end > at)
            patterns[count++] = text_of(at);
        at = end + 1;
        if (*at == '\n') {
            at++;
            break;
        }
    }
    if (count)
        try_list(patterns, count, at, (size_t)(all + size - at));
    free(all);
    return 0;
}
