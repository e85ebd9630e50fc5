/* Logout tokens that wait until a provider's keys can be had, or may be fetched again: few of an
 * account at a time, because each has a place of its edge's that tokens whose key is known must not
 * lack. */
#pragma once

#include <stdbool.h>

enum { KEY_WAITS_MAX = 2 /* of an account, in this copy */ };

/* One that is counted; zero: it is not. */
typedef struct key_wait {
    unsigned place; /* of its account's count, from 1 on */
} key_wait_t;

/* Count it, unless it is counted already. False: as many of the account wait as may. */
bool key_wait_take(key_wait_t *self, const char *account);
/* It waits no more. Not counted is fine. */
void key_wait_done(key_wait_t *self);
