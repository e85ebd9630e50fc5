#include "services/identity/rules_newest.h"
#include "common/base/cleanup.h"

#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 8192,
    LOOKED_AT = 1000 /* sessions of a place, by its index */
};

/* Two that have the same place in the table take it from each other: what was known of one is then
 * what its sessions say. */
typedef struct newest {
    uint64_t hash; /* 0: free */
    int64_t revision;
    int64_t look_ms; /* sessions are not looked through before */
    int64_t ask_ms;  /* postern-routes is not asked before */
    int64_t lost_above, lost_to;
} newest_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static newest_t table[PLACES];
static unsigned char secret[crypto_shorthash_KEYBYTES]; /* nobody can choose whose place to take */

static void make_secret(void)
{
    randombytes_buf(secret, sizeof(secret));
}

static uint64_t hash_of(const char *place)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t hash;

    pthread_once(&once, make_secret);
    crypto_shorthash(out, (const unsigned char *)place, strlen(place), secret);
    memcpy(&hash, out, sizeof(hash));
    return hash ? hash : 1;
}

/* Under the lock. */
static newest_t *find_or_add(uint64_t hash)
{
    newest_t *one = &table[hash % PLACES];

    if (one->hash != hash)
        *one = (newest_t){.hash = hash};
    return one;
}

static bool is_lost(const newest_t *one, int64_t revision)
{
    return revision > one->lost_above && revision <= one->lost_to;
}

void rules_newest_note(const char *place, int64_t revision)
{
    const uint64_t hash = hash_of(place);
    newest_t *one;

    pthread_mutex_lock(&lock);
    one = find_or_add(hash);
    if (one->revision < revision && !is_lost(one, revision))
        one->revision = revision;
    pthread_mutex_unlock(&lock);
}

int64_t rules_newest_known(const char *place)
{
    const uint64_t hash = hash_of(place);
    const newest_t *one = &table[hash % PLACES];
    int64_t revision;

    pthread_mutex_lock(&lock);
    revision = one->hash == hash ? one->revision : 0;
    pthread_mutex_unlock(&lock);
    return revision;
}

void rules_newest_lose(const char *place, int64_t above, int64_t to)
{
    const uint64_t hash = hash_of(place);
    newest_t *one;

    pthread_mutex_lock(&lock);
    one = find_or_add(hash);
    if (one->lost_above != above || one->lost_to < to) {
        one->lost_above = above;
        one->lost_to = to;
    }
    if (is_lost(one, one->revision))
        one->revision = above;
    pthread_mutex_unlock(&lock);
}

/* Of another place that has taken this one's: nothing. */
static newest_t lost_of(const char *place)
{
    const uint64_t hash = hash_of(place);
    newest_t out = {0};

    pthread_mutex_lock(&lock);
    if (table[hash % PLACES].hash == hash)
        out = table[hash % PLACES];
    pthread_mutex_unlock(&lock);
    return out;
}

bool rules_newest_is_lost(const char *place, int64_t revision)
{
    const newest_t known = lost_of(place);

    return is_lost(&known, revision);
}

int64_t rules_newest_in_force(const char *place)
{
    return lost_of(place).lost_above;
}

/* Is it time, by one of the entry's times? Then it is again after so long. */
static bool take_time(const char *place, bool is_look, int64_t now_ms, int64_t period_ms)
{
    newest_t *one;
    int64_t *at;
    bool may;

    pthread_mutex_lock(&lock);
    one = find_or_add(hash_of(place));
    at = is_look ? &one->look_ms : &one->ask_ms;
    may = !*at || *at <= now_ms;
    if (may)
        *at = now_ms + period_ms;
    pthread_mutex_unlock(&lock);
    return may;
}

bool rules_newest_take_look(const char *place, int64_t now_ms)
{
    return take_time(place, true, now_ms, RULES_NEWEST_LOOK_MS);
}

bool rules_newest_take_question(const char *place, int64_t now_ms)
{
    return take_time(place, false, now_ms, RULES_NEWEST_ASK_MS);
}

/* By which rules some of the sessions of the place were judged. */
static int look(crud_t *crud, const char *place)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const newest_t lost = lost_of(place);
    char most[16], above[24], to[24];
    int r;

    snprintf(above, sizeof(above), "%" PRId64, lost.lost_above);
    snprintf(to, sizeof(to), "%" PRId64, lost.lost_to);
    snprintf(most, sizeof(most), "%d", LOOKED_AT);
    r = pg_exec(crud->pg, &res,
                "SELECT coalesce(max(rules_revision), 0) FROM "
                "(SELECT rules_revision FROM sign_in_session WHERE place = $1 LIMIT $2::int) s "
                "WHERE rules_revision <= $3::bigint OR rules_revision > $4::bigint",
                4, place, most, above, to);
    if (!r)
        rules_newest_note(place, strtoll(PQgetvalue(res, 0, 0), NULL, 10));
    return r;
}

int rules_newest_find(crud_t *crud, const sealed_t *sealed, bool *ret_newer)
{
    char place[SEALED_PLACE_SIZE];
    int r = 0;

    sealed_place(sealed, place);
    if (rules_newest_known(place) <= sealed->revision
        && rules_newest_take_look(place, bus_mono_ms()))
        r = look(crud, place);
    *ret_newer = !r
                 && (rules_newest_known(place) > sealed->revision
                     || rules_newest_is_lost(place, sealed->revision));
    return r;
}
