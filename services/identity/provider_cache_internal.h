/* The cache of providers, for its files: provider_cache.c has the documents, provider_fetches.c who
 * fetches one, provider_turns.c how often that may be out of turn, and what came to nothing. */
#pragma once

#include "services/identity/provider_cache.h"

#include <pthread.h>
#include <sodium.h>

typedef struct entry entry_t; /* a document */
typedef struct owner owner_t; /* an account that documents count for */

/* Fetches out of turn of an account, asker, doubt and document: each moves the time on by what lies
 * between two, and it may be ahead of now by as many as may come at once. Or what such a fetch was
 * for, until that may be new again; or a document that a fetch has not brought. Two that have the
 * same place do not hold each other up: the newer one takes it. */
typedef struct turn {
    uint64_t hash; /* of all that it is about */
    int64_t until_s;
} turn_t;

/* By themselves, so that none takes the others' places. */
typedef struct provider_turns {
    turn_t *taken;    /* fetches */
    turn_t *vains;    /* what for */
    turn_t *failures; /* of what in vain */
} provider_turns_t;

/* A fetch that is under way, of an account and a document; in its place as a turn is. */
typedef struct fetching {
    uint64_t hash;   /* of both */
    uint64_t number; /* 0: none is */
    unsigned flows;  /* that take part in it */
    int64_t began_s;
} fetching_t;

typedef struct provider_fetches {
    fetching_t *under_way;
    uint64_t count; /* that there were */
} provider_fetches_t;

struct provider_cache {
    pthread_mutex_t lock; /* of all that follows, but the secret */
    entry_t *entries;
    size_t count, count_max, bytes, bytes_max;
    owner_t *owners;
    size_t owner_count;
    provider_turns_t turns;
    provider_fetches_t fetches;
    unsigned char secret[crypto_shorthash_KEYBYTES]; /* of hashes, which nobody else can tell */
    uint64_t uses;
};

/* Hash of a text that nobody else can tell. */
uint64_t provider_cache_hash(const provider_cache_t *self, const char *text);
/* Of a document of an account, of a sort of use (below, or 0 and up), and of what of the document
 * it is about ("": all). 0: no memory. */
uint64_t provider_cache_hash_of_use(const provider_cache_t *self, int sort, const char *account,
                                    const char *kind, const char *name, const char *part);

enum {
    SORT_FETCH = -1, /* where an asker stands otherwise */
    SORT_VAIN = -2,  /* the same */
    SORT_FAILED = -3
};

/* Is it ahead of now by more than can be? Who asks may have begun before what is remembered; a
 * clock that was set back by more makes nobody wait. */
bool provider_cache_is_ahead(int64_t at_s, int64_t now_s, int64_t most_s);

/* Make and free what they have; the cache's lock is not needed. */
void provider_turns_init(provider_turns_t *self);
void provider_turns_done(provider_turns_t *self);
void provider_fetches_init(provider_fetches_t *self);
void provider_fetches_done(provider_fetches_t *self);

/* With the lock: take a turn for a fetch out of turn, if there is one now. False: there is none, or
 * no memory. Whoever makes up one key id after another has turns for as many as he likes, and what
 * is fetched for him is there for everybody; whoever names the same one again leaves some to those
 * who name one that is new. */
bool provider_turns_take(provider_cache_t *cache, const provider_wanted_t *wanted, int64_t now_s);
