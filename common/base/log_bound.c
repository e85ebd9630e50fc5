#include "common/base/log_bound.h"

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The share of that key; a new one takes the place of one whose time is over, with what that has
 * left out. Where there is none, the first is for all others. */
static log_share_t *share_of(log_bound_t *self, uint64_t key, int64_t now_ms)
{
    log_share_t *set = self->shares[key % LOG_BOUND_SETS], *over = NULL;

    for (int i = 1; i < LOG_BOUND_WAYS; i++) {
        if (set[i].until_ms && set[i].key == key)
            return &set[i];
        if (now_ms >= set[i].until_ms && !over)
            over = &set[i];
    }
    if (!over)
        return &set[0];
    over->key = key;
    return over;
}

bool log_bound_admits(log_bound_t *self, const char *kind, unsigned most, int64_t now_ms,
                      uint64_t *ret_left_out)
{
    log_share_t *share;
    bool admits;

    *ret_left_out = 0;
    pthread_mutex_lock(&self->lock);
    share = share_of(self, hash_of(kind), now_ms);
    if (now_ms >= share->until_ms) {
        share->until_ms = now_ms + LOG_BOUND_MS;
        share->lines = 0;
    }
    admits = share->lines < most;
    if (admits) {
        share->lines++;
        *ret_left_out = share->left_out;
        share->left_out = 0;
    } else {
        share->left_out++;
    }
    pthread_mutex_unlock(&self->lock);
    return admits;
}
