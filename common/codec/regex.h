/* RE2 for C: time is linear in the text, whatever the expression. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct re2_regex regex_t;

/* Compile. 0 | -EINVAL, with the reason in why. */
int regex_new(regex_t **ret_regex, const char *pattern, char *why, size_t why_size);

/* Does the expression match anywhere in text? */
bool regex_search(const regex_t *self, const char *text, size_t len);

/* NULL is fine. */
void regex_destroy(regex_t **self_p);

#ifdef __cplusplus
}
#endif
