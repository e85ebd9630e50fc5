/* The rules of user_agent_filter: which User-Agent headers may come in. No nginx in here. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    AGENT_MAX = 2048,       /* bytes of a header that is judged by the expressions */
    AGENT_PATTERNS_MAX = 50 /* of a list, as proto/types.def has it */
};

typedef struct agents agents_t;

/* The hooks parse and free of module.h: {allow, deny}, lists of expressions. Routes with the
 * same list have one compiled set of it between them. */
void *agents_parse(const msgpack_object *document, bool *bad);
void agents_free(void *config);

/* The hook bytes: compiled lists, as if nobody else had them. */
size_t agents_bytes(const void *config);

/* May a request with this User-Agent header go on? NULL: it has none, which is judged as an
 * empty one and needs an expression of allow that matches it. A match of allow admits the
 * request, whatever deny says; otherwise a match of deny denies it; otherwise it is admitted. A
 * header of more than AGENT_MAX bytes is denied. One that is too long for a list
 * (regex_set_text_max), or for which the list's memory does not suffice, is not matched by allow
 * and is matched by deny. Bytes that are no UTF-8 are
 * judged as U+FFFD each, of three bytes, so that no expression is blind to them. A search takes
 * REGEX_SET_WORK at most of each list: some milliseconds. */
bool agents_permit(const agents_t *self, const char *agent, size_t len);

/* Is the verdict known without a search? True, and *ret_permitted is what agents_permit says. */
bool agents_recall(const agents_t *self, const char *agent, size_t len, bool *ret_permitted);

/* Have both the same lists? Then they permit the same. */
bool agents_are_same(const agents_t *self, const agents_t *other);

/* How many different lists are compiled now, in all tables of the process. */
size_t agents_lists(void);
