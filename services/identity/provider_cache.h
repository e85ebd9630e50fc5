/* Documents of identity providers that a sign-in needs and that seldom change: metadata and key
 * sets of OpenID Connect. Shared by all workers' threads, of all accounts: what an issuer publishes
 * is the same for everybody. Bounded by count and by bytes. Each document counts for one account
 * that uses it, the one with the fewest. Where there is no room, the account that has the most
 * gives up what it has not used for longest: whoever has few providers keeps them, whatever others
 * do.
 *
 * A document is fresh for as long as its answer said (max-age, from a minute to a day). Then one
 * asker fetches it anew, while the others go on with the old one for half a minute; so they do when
 * the provider does not answer, for a day at most. The caller says what time it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct provider_cache provider_cache_t;

enum {
    PROVIDER_CACHE_LIFE_MIN_S = 60,
    PROVIDER_CACHE_LIFE_S = 3600, /* where the answer says nothing */
    PROVIDER_CACHE_LIFE_MAX_S = 24 * 3600,
    PROVIDER_CACHE_KEPT_S = 24 * 3600, /* after the life's end, while the provider fails */
    PROVIDER_CACHE_RETRY_S = 30,
    /* Fetches out of turn, for what a document lacks: one each 6 s, and up to 4 that were not used
     * at once. What has been looked for in vain within a minute leaves 2 to what is new. */
    PROVIDER_CACHE_AGAIN_S = 6,
    PROVIDER_CACHE_SPARE = 4,
    PROVIDER_CACHE_LEFT = 2,
    PROVIDER_CACHE_VAIN_S = 60,
    PROVIDER_CACHE_FAILED_S = 2,     /* that an answer which is no document is remembered */
    PROVIDER_CACHE_WRONG_S = 10,     /* between two for what the document contradicts */
    PROVIDER_CACHE_FETCH_MAX_S = 60, /* no fetch is under way for longer */
    PROVIDER_CACHE_WAITS_MAX = 2     /* fetches of others that one flow waits for */
};

/* Who has a fetch out of turn made. What anybody can bring does not use up what a sign-in may do,
 * whose token the provider itself has just handed out. */
typedef enum provider_asker {
    PROVIDER_ASKER_SIGN_IN,
    PROVIDER_ASKER_LOGOUT, /* a logout token */
    PROVIDER_ASKER_BEARER  /* a token of a program */
} provider_asker_t;

/* Why a fetch out of turn is wanted. Anybody can bring what the document contradicts, and that is
 * hardly ever because the document is old: it has turns of its own, which are rarer, and one at a
 * time. What is fetched for rubbish is there for everybody, so whoever uses them up hides a key
 * that was changed under its id for no longer than lies between two. */
typedef enum provider_doubt {
    PROVIDER_DOUBT_LACKS, /* the document has nothing of the kind: a key id that is new */
    PROVIDER_DOUBT_WRONG  /* the document has it, and says otherwise: a signature is wrong */
} provider_doubt_t;

/* Which document, for whom, and why. Borrowed. */
typedef struct provider_wanted {
    const char *account, *kind, *name; /* as provider_cache_find */
    provider_asker_t asker;
    provider_doubt_t doubt;
    const char *lacks; /* what the document has not: a key id; NULL: it has no name */
    unsigned waits;    /* how often this flow has waited for a fetch of another flow */
} provider_wanted_t;

typedef enum provider_again {
    PROVIDER_AGAIN_NO,    /* not now; nothing is known of whether that would help */
    PROVIDER_AGAIN_FETCH, /* fetch it; that turn is used up */
    PROVIDER_AGAIN_WAIT   /* another flow is fetching it: ask for the same, which is one request
                             while it is under way, and costs no turn */
} provider_again_t;

/* A document that came. Borrowed. */
typedef struct provider_document {
    const char *text;
    size_t len;
    const char *cache_control; /* the answer's header; NULL: it has none */
    uint64_t fetch; /* of provider_cache_begin or _again; 0: of none that is told from others */
} provider_document_t;

typedef enum provider_cached {
    PROVIDER_CACHE_NONE,  /* fetch it */
    PROVIDER_CACHE_STALE, /* fetch it; what is here serves if that fails */
    PROVIDER_CACHE_FRESH
} provider_cached_t;

/* At most count documents of bytes in all, their names included. The caller frees it. */
provider_cache_t *provider_cache_new(size_t count, size_t bytes);
/* NULL is fine. */
void provider_cache_destroy(provider_cache_t **self_p);

/* The one of all flows of this program; it lives as long as the program. */
provider_cache_t *provider_cache_shared(void);

/* The document of this kind ("metadata", "keys") and name (issuer, or URL), for an account ("": of
 * nobody). Unless it is NONE, *ret_text is a copy that ends with NUL, and the caller frees it. A
 * cache that is NULL has nothing. */
provider_cached_t provider_cache_find(provider_cache_t *self, const char *account, const char *kind,
                                      const char *name, int64_t now_s, char **ret_text,
                                      size_t *ret_len);

/* Keep a document that was read and found good. What does not fit, or has no memory, is not kept,
 * nor what a later fetch than its own has brought something in place of: whoever comes late does
 * not bring keys back that were withdrawn meanwhile. */
void provider_cache_put(provider_cache_t *self, const char *account, const char *kind,
                        const char *name, const provider_document_t *document, int64_t now_s);

/* A fetch that nobody has to be asked for begins, of a document that is not FRESH. True: it is this
 * flow's; false: another one is under way for the account, and this flow takes part in it. In any
 * case *ret_fetch is its number, for provider_cache_end. */
bool provider_cache_begin(provider_cache_t *self, const char *account, const char *kind,
                          const char *name, int64_t now_s, uint64_t *ret_fetch);

/* May a fresh document be fetched out of turn, because of a doubt? FETCH for each account, asker
 * and document 10 times a minute, and 4 more at once, where it LACKS something, and 6 times a
 * minute where it is WRONG. WAIT while any fetch of it for the account is under way, up to
 * PROVIDER_CACHE_WAITS_MAX times. *ret_fetch is the fetch's number, for provider_cache_end; 0 with
 * NO. */
provider_again_t provider_cache_again(provider_cache_t *self, const provider_wanted_t *wanted,
                                      int64_t now_s, uint64_t *ret_fetch);

/* The provider has answered a fetch of the document for this account with what is none: another
 * status, or what cannot be read. */
void provider_cache_fail(provider_cache_t *self, const char *account, const char *kind,
                         const char *name, int64_t now_s);
/* Has it done so within PROVIDER_CACHE_FAILED_S, counted from when the flow began whose fetch that
 * was? Then it need not be asked again for what anybody can bring. */
bool provider_cache_failed(provider_cache_t *self, const char *account, const char *kind,
                           const char *name, int64_t now_s);

/* This flow takes no more part in that fetch, which each does once that has its number. It is over
 * when it has brought something (is_there; after provider_cache_put), and else with the last one
 * who takes part in it: where the first has failed, or had less time, the others still wait for
 * it. 0, and one that is over already, are fine. */
void provider_cache_end(provider_cache_t *self, uint64_t fetch, bool is_there);

/* Seconds that a Cache-Control header (RFC 9111 5.2.2) lets a document live, within the bounds. */
int64_t provider_cache_life_s(const char *cache_control);
