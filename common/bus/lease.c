#include "common/bus/lease.h"
#include "common/base/invariant.h"
#include "common/base/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>

void leases_init(leases_t *self, leases_say_fn say, void *context, int64_t now_ms)
{
    *self =
        (leases_t){.say = say, .context = context, .started_ms = now_ms, .epoch = zclock_usecs()};
}

void leases_done(leases_t *self)
{
    while (self->count > 0)
        zframe_destroy(&self->held[--self->count].holder);
}

static void drop_expired(leases_t *self, int64_t now_ms)
{
    int kept = 0;

    for (int i = 0; i < self->count; i++)
        if (now_ms - self->held[i].heard_ms < LEASE_MS)
            self->held[kept++] = self->held[i];
        else
            zframe_destroy(&self->held[i].holder);
    self->count = kept;
}

/* The lease of this holder, found or new. NULL: LEASES_MAX peers hold one already; this peer gets
 * none. */
static lease_t *find_or_add(leases_t *self, zframe_t *holder, int64_t now_ms)
{
    INVARIANT(self->count >= 0 && self->count <= LEASES_MAX);
    for (int i = 0; i < self->count; i++)
        if (zframe_eq(self->held[i].holder, holder))
            return &self->held[i];
    if (self->count == LEASES_MAX)
        drop_expired(self, now_ms);
    if (self->count == LEASES_MAX)
        return NULL;
    self->held[self->count] = (lease_t){.holder = zframe_dup(holder)};
    return &self->held[self->count++];
}

static void lease_say(const leases_t *self, zframe_t *holder, const char *word, int64_t epoch,
                      const char *clock)
{
    zmsg_t *msg = zmsg_new();
    zframe_t *to = zframe_dup(holder);

    zmsg_append(msg, &to);
    zmsg_addstr(msg, word);
    zmsg_addstrf(msg, "%" PRId64, epoch);
    zmsg_addstr(msg, clock);
    self->say(self->context, &msg);
}

bool leases_take(leases_t *self, zmsg_t *msg, int64_t now_ms)
{
    zframe_t *holder = zmsg_first(msg), *word = zmsg_next(msg);
    _cleanup_(free_mem) char *epoch = NULL;
    _cleanup_(free_mem) char *clock = NULL;
    lease_t *lease;

    if (zmsg_size(msg) != 4 || !zframe_streq(word, "lease"))
        return false;
    epoch = zframe_strdup(zmsg_next(msg));
    clock = zframe_strdup(zmsg_next(msg));
    if (strlen(epoch) > 20 || strlen(clock) > 20)
        return true;
    lease = find_or_add(self, holder, now_ms);
    if (!lease)
        return true;
    lease->heard_ms = now_ms;
    lease->epoch = strtoll(epoch, NULL, 10);
    clock_gap_take(&lease->clock, strtoll(clock, NULL, 10), now_ms);
    lease_say(self, holder, "lease", self->epoch, clock);
    return true;
}

const clock_gap_t *leases_clock(const leases_t *self, zframe_t *holder)
{
    for (int i = 0; i < self->count; i++)
        if (zframe_eq(self->held[i].holder, holder))
            return &self->held[i].clock;
    return NULL;
}

int64_t leases_revoke(leases_t *self)
{
    INVARIANT(self->epoch < INT64_MAX); /* epochs only rise */
    self->epoch++;
    for (int i = 0; i < self->count; i++)
        lease_say(self, self->held[i].holder, "revoke", self->epoch, "0");
    return self->epoch;
}

bool leases_settled(const leases_t *self, int64_t epoch, int64_t now_ms)
{
    INVARIANT(epoch <= self->epoch); /* no holder could ever acknowledge a later one */
    if (now_ms - self->started_ms < LEASE_MS)
        return false;
    for (int i = 0; i < self->count; i++)
        if (self->held[i].epoch < epoch && now_ms - self->held[i].heard_ms < LEASE_MS)
            return false;
    return true;
}
