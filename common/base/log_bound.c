#include "common/base/log_bound.h"

#include <stdio.h>

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static bool has_to_tell(const log_share_t *share)
{
    return share->left_out || share->untold;
}

/* The share of that kind; a new one takes the place of one whose time is over, and of which nothing
 * is left to say. Where there is none, the first is for all others. */
static log_share_t *share_of(log_bound_t *self, const char *kind, int64_t now_ms)
{
    uint64_t key = hash_of(kind);
    log_share_t *set = self->shares + key % LOG_BOUND_SETS * LOG_BOUND_WAYS, *over = NULL;

    for (int i = 1; i < LOG_BOUND_WAYS; i++) {
        if (set[i].until_ms && set[i].key == key)
            return &set[i];
        if (now_ms >= set[i].until_ms && !has_to_tell(&set[i]) && !over)
            over = &set[i];
    }
    if (!over) {
        over = set;
        kind = LOG_BOUND_OTHERS;
    }
    over->key = key;
    snprintf(over->kind, sizeof(over->kind), "%s", kind);
    return over;
}

bool log_bound_admits(log_bound_t *self, const char *kind, int64_t now_ms)
{
    log_share_t *share;
    bool admits;

    pthread_mutex_lock(&self->lock);
    share = share_of(self, kind, now_ms);
    if (now_ms >= share->until_ms) {
        share->until_ms = now_ms + LOG_BOUND_MS;
        share->lines = 0;
        share->untold += share->left_out;
        share->left_out = 0;
    }
    admits = share->lines < self->most;
    if (admits) {
        share->lines++;
    } else {
        self->telling += !has_to_tell(share);
        share->left_out++;
    }
    pthread_mutex_unlock(&self->lock);
    return admits;
}

/* A share that has left out lines in a time that is over; NULL: none from `at` on. */
static log_share_t *next_to_tell(log_bound_t *self, int64_t now_ms)
{
    while (self->at < LOG_BOUND_SHARES) {
        log_share_t *share = &self->shares[self->at++];

        if (now_ms >= share->until_ms ? has_to_tell(share) : share->untold > 0)
            return share;
    }
    return NULL;
}

/* What it has to tell by now, which it has told then. */
static uint64_t take_untold(log_share_t *share, int64_t now_ms)
{
    uint64_t lines = share->untold;

    share->untold = 0;
    if (now_ms >= share->until_ms) {
        lines += share->left_out;
        share->left_out = 0;
    }
    return lines;
}

bool log_bound_left_out(log_bound_t *self, int64_t now_ms, log_left_out_t *ret_left_out)
{
    log_share_t *share = NULL;

    pthread_mutex_lock(&self->lock);
    if (self->telling && now_ms >= self->look_ms)
        share = next_to_tell(self, now_ms);
    if (share) {
        ret_left_out->lines = take_untold(share, now_ms);
        snprintf(ret_left_out->kind, sizeof(ret_left_out->kind), "%s", share->kind);
        self->telling -= !has_to_tell(share);
    } else if (self->at) {
        self->at = 0;
        self->look_ms = now_ms + LOG_BOUND_LOOK_MS;
    }
    pthread_mutex_unlock(&self->lock);
    return share != NULL;
}
