/* How long an account's names may hold up acknowledgements. Acknowledgements go to the config log
 * in the order of revisions, so one that waits for a name keeps everybody's changes waiting. Each
 * account has a credit for that, which is paid back slowly: with a name server that always takes
 * just as long as is waited for, one account would otherwise hold up all others for good. No clock
 * in here: now_ms is any clock that never goes back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESOLVE_CREDIT_MS = 500,      /* an account that held up others for so long waits no more */
    RESOLVE_CREDIT_BACK_MS = 50,  /* time after which it has one of these milliseconds back */
    RESOLVE_CREDIT_QUICK_MS = 50, /* of each stretch that is not counted: an answer takes that */
};

/* All zero but for counted_ms: an account that has spent nothing. */
typedef struct resolve_credit {
    size_t waiting;     /* names that acknowledgements wait for now */
    int64_t since_ms;   /* when the first of these began */
    int64_t spent_ms;   /* of the stretches that are over, less what was paid back */
    int64_t counted_ms; /* up to when it was paid back */
} resolve_credit_t;

/* Begin with all of the credit. */
void resolve_credit_init(resolve_credit_t *self, int64_t now_ms);

/* An acknowledgement begins, or ends, to wait for one of the account's names. */
void resolve_credit_begin(resolve_credit_t *self, int64_t now_ms);
void resolve_credit_end(resolve_credit_t *self, int64_t now_ms);

/* Milliseconds spent and not paid back, those of the stretch that goes on included. */
int64_t resolve_credit_spent(resolve_credit_t *self, int64_t now_ms);

/* Nothing may wait for the account's names any more. */
bool resolve_credit_is_used_up(resolve_credit_t *self, int64_t now_ms);
