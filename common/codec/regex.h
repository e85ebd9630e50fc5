/* RE2 for C: time is linear in the text, whatever the expression. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct re2_regex regex_t;

/* Compile. 0 | -EINVAL, with the reason in why: it is none, or beyond REGEX_SET_WIDE or
 * REGEX_SET_BYTES. */
int regex_new(regex_t **ret_regex, const char *pattern, char *why, size_t why_size);

/* Does the expression match anywhere in text? */
bool regex_search(const regex_t *self, const char *text, size_t len);

/* NULL is fine. */
void regex_destroy(regex_t **self_p);

enum {
    REGEX_SET_WIDE = 32,         /* classes in them that may have nearly all characters */
    REGEX_SET_TEXT = 64 << 10,   /* bytes of the expressions of a set, their ends included */
    REGEX_SET_BYTES = 128 << 10, /* what the set may take when it is compiled and used */
    REGEX_SET_WORK = 512 << 10,  /* of one search: bytes of its text times instructions */
    REGEX_SET_SURE = 256         /* bytes of a text that any set searches */
};

typedef struct re2_set regex_set_t;

typedef enum regex_found {
    REGEX_FOUND_NONE,
    REGEX_FOUND_ONE,
    REGEX_FOUND_UNKNOWN /* the text is too long for the set, or its memory does not suffice */
} regex_found_t;

/* Compile count expressions into one automaton, whose memory is bounded. 0 | -EINVAL, with the
 * reason in why: one of them is none, or all together are larger than the bounds above. */
int regex_set_new(regex_set_t **ret_set, const char *const *patterns, size_t count, char *why,
                  size_t why_size);

/* Bytes of the longest text that the set searches, at least REGEX_SET_SURE: the more instructions
 * its program has, the fewer. A text may be made so that each of its bytes leads to a state that
 * the automaton does not have yet, and such a state takes time by the program's length: about 10 ns
 * an instruction. */
size_t regex_set_text_max(const regex_set_t *self);

/* Does one of them match anywhere in text, which is UTF-8? */
regex_found_t regex_set_search(const regex_set_t *self, const char *text, size_t len);

/* NULL is fine. */
void regex_set_destroy(regex_set_t **self_p);

#ifdef __cplusplus
}
#endif
