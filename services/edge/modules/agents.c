#include "services/edge/modules/agents.h"

#include "common/base/invariant.h"
#include "common/base/utf8.h"
#include "common/codec/regex.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"

#include <string.h>

/* One list of expressions, of all routes that have it. */
typedef struct list {
    regex_set_t *set;
    uint64_t number; /* of no other list, before or after */
    size_t users;
    size_t key_len;
    char key[]; /* the expressions, each ended by a NUL */
} list_t;

struct agents {
    list_t *allow, *deny; /* NULL: no expressions */
};

/* A header that was judged, by these two lists: most headers come again, and a search costs more
 * than all else that a filter does. A place is taken by whatever falls on it next. */
enum { MEMO_PLACES = 512, MEMO_BYTES = 256 };

typedef struct memo {
    uint64_t allow, deny; /* numbers of lists; both 0: nothing was judged */
    bool permitted;
    size_t len;
    char agent[MEMO_BYTES];
} memo_t;

static memo_t memos[MEMO_PLACES];

/* By key: a compiled list takes 20 to 130 KB, and thousands of routes may have the same one. */
static strmap_t *lists;

static list_t *list_new(const char *key, size_t key_len, bool *bad)
{
    const char *patterns[AGENT_PATTERNS_MAX];
    size_t count = 0;
    static uint64_t numbers;
    char why[64];
    list_t *list = slab_alloc(sizeof(*list) + key_len);

    memcpy(list->key, key, key_len);
    list->key_len = key_len;
    list->number = ++numbers;
    for (size_t at = 0; at < key_len; at += strlen(list->key + at) + 1) {
        INVARIANT(count < AGENT_PATTERNS_MAX);
        patterns[count++] = list->key + at;
    }
    if (regex_set_new(&list->set, patterns, count, why, sizeof(why))) {
        *bad = true;
        slab_free(list);
        return NULL;
    }
    return list;
}

static list_t *list_join(const char *key, size_t key_len, bool *bad)
{
    list_t *list;

    if (!lists)
        lists = strmap_new();
    list = strmap_get(lists, key, key_len);
    if (!list) {
        list = list_new(key, key_len, bad);
        if (!list)
            return NULL;
        strmap_put(lists, list->key, list->key_len, list);
    }
    list->users++;
    return list;
}

static void list_leave(list_t *list)
{
    if (!list)
        return;
    INVARIANT(list->users > 0);
    if (--list->users)
        return;
    strmap_del(lists, list->key, list->key_len);
    regex_set_destroy(&list->set);
    slab_free(list);
}

static bool is_pattern(const msgpack_object *item)
{
    return item->type == MSGPACK_OBJECT_STR && !memchr(item->via.str.ptr, '\0', item->via.str.size);
}

/* NULL: there are none, or *bad is set. */
static list_t *parse_list(const msgpack_object *value, bool *bad)
{
    size_t len = 0, at = 0;
    list_t *list;
    char *key;

    if (!value || value->type == MSGPACK_OBJECT_NIL)
        return NULL;
    if (value->type != MSGPACK_OBJECT_ARRAY || value->via.array.size > AGENT_PATTERNS_MAX) {
        *bad = true;
        return NULL;
    }
    for (uint32_t i = 0; i < value->via.array.size && !*bad; i++) {
        *bad = !is_pattern(&value->via.array.ptr[i]);
        len += *bad ? 0 : value->via.array.ptr[i].via.str.size + 1;
    }
    if (*bad || len == 0 || len > REGEX_SET_TEXT) {
        *bad = *bad || len > 0;
        return NULL;
    }
    key = slab_alloc(len); /* all zero: the NULs are there */
    for (uint32_t i = 0; i < value->via.array.size; i++) {
        const msgpack_object_str *text = &value->via.array.ptr[i].via.str;

        memcpy(key + at, text->ptr, text->size);
        at += text->size + 1;
    }
    list = list_join(key, len, bad);
    slab_free(key);
    return list;
}

void *agents_parse(const msgpack_object *document, bool *bad)
{
    agents_t *self = slab_alloc(sizeof(*self));

    self->allow = parse_list(document_get(document, "allow"), bad);
    self->deny = parse_list(document_get(document, "deny"), bad);
    return self;
}

void agents_free(void *config)
{
    agents_t *self = config;

    list_leave(self->allow);
    list_leave(self->deny);
    slab_free(self);
}

size_t agents_bytes(const void *config)
{
    const agents_t *self = config;

    return (size_t)((self->allow != NULL) + (self->deny != NULL)) * REGEX_SET_BYTES;
}

bool agents_are_same(const agents_t *self, const agents_t *other)
{
    return self->allow == other->allow && self->deny == other->deny;
}

size_t agents_lists(void)
{
    return lists ? strmap_count(lists) : 0;
}

/* Copies text, with U+FFFD for each byte that is of no character; returns its length. */
static size_t copy_characters(char *out, const char *text, size_t len)
{
    static const char unknown[] = "\xef\xbf\xbd";
    size_t n = 0;

    for (size_t i = 0, size; i < len; i += size ? size : 1) {
        size = utf8_character((const unsigned char *)text + i, (const unsigned char *)text + len);
        if (size) {
            memcpy(out + n, text + i, size);
            n += size;
        } else {
            memcpy(out + n, unknown, sizeof(unknown) - 1);
            n += sizeof(unknown) - 1;
        }
    }
    return n;
}

static regex_found_t search_list(const list_t *list, const char *text, size_t len)
{
    return list ? regex_set_search(list->set, text, len) : REGEX_FOUND_NONE;
}

/* Judge by searching. *ret_sure: the same header gets the same verdict again, which one that lacked
 * memory need not. */
static bool search_lists(const agents_t *self, const char *agent, size_t len, bool *ret_sure)
{
    char text[3 * AGENT_MAX];
    regex_found_t allowed, denied = REGEX_FOUND_NONE;

    text[0] = '\0';
    len = copy_characters(text, agent, len);
    allowed = search_list(self->allow, text, len);
    if (allowed != REGEX_FOUND_ONE && len > 0)
        denied = search_list(self->deny, text, len);
    *ret_sure = (allowed == REGEX_FOUND_ONE || allowed == REGEX_FOUND_NONE)
                && (denied == REGEX_FOUND_ONE || denied == REGEX_FOUND_NONE);
    return allowed == REGEX_FOUND_ONE || (len > 0 && denied == REGEX_FOUND_NONE);
}

/* The place of a header, eight bytes at a time: it is found for each request. */
static memo_t *memo_of(const memo_t *wanted, const char *agent)
{
    uint64_t hash = wanted->allow ^ wanted->deny << 32 ^ wanted->len, word;

    for (size_t at = 0, n; at < wanted->len; at += n) {
        n = wanted->len - at < sizeof(word) ? wanted->len - at : sizeof(word);
        word = 0;
        memcpy(&word, agent + at, n);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return &memos[hash % MEMO_PLACES];
}

static bool memo_is(const memo_t *memo, const memo_t *wanted, const char *agent)
{
    return memo->allow == wanted->allow && memo->deny == wanted->deny && memo->len == wanted->len
           && !memcmp(memo->agent, agent, wanted->len);
}

static memo_t wanted_memo(const agents_t *self, const char *agent, size_t len)
{
    return (memo_t){.allow = self->allow ? self->allow->number : 0,
                    .deny = self->deny ? self->deny->number : 0,
                    .len = agent ? len : 0};
}

static bool is_remembered_kind(const memo_t *wanted)
{
    return wanted->len > 0 && wanted->len <= MEMO_BYTES && (wanted->allow || wanted->deny);
}

bool agents_recall(const agents_t *self, const char *agent, size_t len, bool *ret_permitted)
{
    const memo_t *memo, wanted = wanted_memo(self, agent, len);

    *ret_permitted = false;
    if (len > AGENT_MAX)
        return true;
    if (!self->allow && !self->deny) {
        *ret_permitted = wanted.len > 0;
        return true;
    }
    if (!is_remembered_kind(&wanted))
        return false;
    memo = memo_of(&wanted, agent);
    if (!memo_is(memo, &wanted, agent))
        return false;
    *ret_permitted = memo->permitted;
    return true;
}

bool agents_permit(const agents_t *self, const char *agent, size_t len)
{
    memo_t *memo, wanted = wanted_memo(self, agent, len);
    bool permitted, sure;

    if (agents_recall(self, agent, len, &permitted))
        return permitted;
    permitted = search_lists(self, agent, wanted.len, &sure);
    if (sure && is_remembered_kind(&wanted)) {
        memo = memo_of(&wanted, agent);
        memo->allow = wanted.allow;
        memo->deny = wanted.deny;
        memo->len = wanted.len;
        memo->permitted = permitted;
        memcpy(memo->agent, agent, wanted.len);
    }
    return permitted;
}
