#include "common/base/log_bound.h"

/* FNV-1a: spreads accounts, whose ids nobody chooses. */
static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

bool log_bound_admits(log_bound_t *self, const char *account, int64_t now_ms,
                      uint64_t *ret_left_out)
{
    uint32_t share = hash_of(account) % LOG_BOUND_SHARES;
    bool admits;

    *ret_left_out = 0;
    pthread_mutex_lock(&self->lock);
    if (now_ms >= self->shares[share].until_ms) {
        self->shares[share].until_ms = now_ms + LOG_BOUND_MS;
        self->shares[share].lines = 0;
    }
    admits = self->shares[share].lines < LOG_BOUND_LINES;
    if (admits) {
        self->shares[share].lines++;
        *ret_left_out = self->shares[share].left_out;
        self->shares[share].left_out = 0;
    } else {
        self->shares[share].left_out++;
    }
    pthread_mutex_unlock(&self->lock);
    return admits;
}
