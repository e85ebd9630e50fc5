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
    PROVIDER_CACHE_AGAIN_S = 60 /* between two fetches out of turn */
};

/* Who has a fetch out of turn made. What anybody can bring does not use up what a sign-in may do,
 * whose token the provider itself has just handed out. */
typedef enum provider_asker {
    PROVIDER_ASKER_SIGN_IN,
    PROVIDER_ASKER_LOGOUT, /* a logout token */
    PROVIDER_ASKER_BEARER  /* a token of a program */
} provider_asker_t;

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

/* Keep a document that was read and found good. cache_control: the answer's header, or NULL. What
 * does not fit, or has no memory, is not kept. */
void provider_cache_put(provider_cache_t *self, const char *account, const char *kind,
                        const char *name, const char *text, size_t len, const char *cache_control,
                        int64_t now_s);

/* May a fresh document be fetched out of turn, because it lacks something (a key id)? Yes at most
 * once a minute for each account and asker; others have their own. */
bool provider_cache_again(provider_cache_t *self, const char *account, provider_asker_t asker,
                          const char *kind, const char *name, int64_t now_s);

/* Seconds that a Cache-Control header (RFC 9111 5.2.2) lets a document live, within the bounds. */
int64_t provider_cache_life_s(const char *cache_control);
