#include "common/bus/backlog.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"

#include <limits.h>
#include <pthread.h>

enum {
    FRAME_OVERHEAD = 256, /* bytes that a waiting frame costs beside its content */
    FREE_SHARE = 4        /* one holder leaves a fourth of the workers to others, one at least */
};

#define GUESTS_BOUNDS                                                                              \
    {                                                                                              \
        BACKLOG_GUESTS_OWN, BACKLOG_GUESTS_OWN_BYTES, BACKLOG_GUESTS_ALL,                          \
            BACKLOG_GUESTS_ALL_BYTES, BACKLOG_GUESTS_OWN, BACKLOG_GUESTS_OWN_BYTES                 \
    }

static const shares_bounds_t bounds[BACKLOG_LANES] = {
    [BACKLOG_QUICK] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES, 0, 0},
    [BACKLOG_SLOW] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES, 0, 0},
    [BACKLOG_GUEST] = GUESTS_BOUNDS,
    [BACKLOG_SLOW_GUEST] = GUESTS_BOUNDS,
};

/* A guest's one account, of several. */
static const shares_bounds_t bounds_of_account = {
    BACKLOG_GUESTS_OWN / 2,   BACKLOG_GUESTS_OWN_BYTES / 2, BACKLOG_GUESTS_ALL,
    BACKLOG_GUESTS_ALL_BYTES, BACKLOG_GUESTS_OWN,           BACKLOG_GUESTS_OWN_BYTES};

/* For what comes back: a request that was accepted once is not refused. */
static const shares_bounds_t boundless = {
    .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = SIZE_MAX, .all_bytes = SIZE_MAX};

struct backlog {
    pthread_mutex_t mutex; /* held for a few instructions only */
    pthread_cond_t more;
    shares_t *lanes[BACKLOG_LANES];
    uint64_t turns, turn[BACKLOG_LANES]; /* so many there were, and which was the lane's last */
    int running[BACKLOG_LANES];
    /* Of the slow lanes, of all lanes but the quick one, and of all but the one of guests. */
    int slow_max, beside_max, leave_max;
    bool stopped;
};

static void destroy_msg(void **item)
{
    zmsg_destroy((zmsg_t **)item);
}

/* All lanes beside the quick one get half of the workers, or two of three, because slow ones leave
 * one of those to guests: nothing interrupts what computes for seconds, and all sign-ins wait among
 * the guests. */
static void bound_lanes(backlog_t *self, int workers)
{
    int most = workers == 3 ? 2 : workers / 2;
    int held = workers - (workers + FREE_SHARE - 1) / FREE_SHARE;

    self->beside_max = most > 1 ? most : 1;
    self->slow_max = most > 1 ? most - 1 : 1;
    self->leave_max = workers > 2 ? workers - 1 : INT_MAX;
    if (held >= self->leave_max)
        held = self->leave_max - 1; /* else other accounts had but the worker that is guests' */
    for (int i = 0; workers > 1 && i < BACKLOG_LANES; i++)
        shares_bound_held(self->lanes[i], (size_t)held);
}

backlog_t *backlog_new(int workers)
{
    backlog_t *self = calloc(1, sizeof(*self));
    bool made = true;

    if (!self)
        return NULL;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->more, NULL);
    for (int i = 0; i < BACKLOG_LANES; i++)
        made = (self->lanes[i] = shares_new(destroy_msg)) && made;
    if (made)
        bound_lanes(self, workers);
    else
        backlog_destroy(&self);
    return self;
}

void backlog_destroy(backlog_t **self_p)
{
    backlog_t *self = *self_p;

    if (!self)
        return;
    for (int i = 0; i < BACKLOG_LANES; i++)
        shares_destroy(&self->lanes[i]);
    pthread_cond_destroy(&self->more);
    pthread_mutex_destroy(&self->mutex);
    free(self);
    *self_p = NULL;
}

static size_t size_of(zmsg_t *msg)
{
    return zmsg_content_size(msg) + zmsg_size(msg) * FRAME_OVERHEAD;
}

static bool is_of_guests(backlog_lane_t lane)
{
    return lane == BACKLOG_GUEST || lane == BACKLOG_SLOW_GUEST;
}

/* Whoever it speaks for, a guest has the room of one: its owners are a group. */
static int put_bounded(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       const shares_bounds_t *most, zmsg_t **msg)
{
    _cleanup_(free_mem) char *peer = memory_copy(owner, "a peer's name");
    char *space = strchr(peer, ' ');
    int r;

    if (space)
        *space = '\0';
    if (space && space[1] && is_of_guests(lane) && most == &bounds[lane])
        most = &bounds_of_account;
    pthread_mutex_lock(&self->mutex);
    r = shares_put_grouped(self->lanes[lane], owner, is_of_guests(lane) ? peer : "", holder, most,
                           size_of(*msg), *msg);
    pthread_mutex_unlock(&self->mutex);
    if (r)
        return r;
    *msg = NULL;
    pthread_cond_signal(&self->more);
    return 0;
}

int backlog_put(backlog_t *self, const char *owner, backlog_lane_t lane, zmsg_t **msg)
{
    return backlog_put_held(self, owner, "", lane, msg);
}

int backlog_put_held(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                     zmsg_t **msg)
{
    INVARIANT(lane < BACKLOG_LANES);
    return put_bounded(self, owner, holder, lane, &bounds[lane], msg);
}

void backlog_put_again(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       zmsg_t **msg)
{
    int r;

    INVARIANT(lane < BACKLOG_LANES);
    r = put_bounded(self, owner, holder, lane, &boundless, msg);
    INVARIANT(!r); /* no bounds apply, so only memory can be missing */
}

/* Is a worker left for one more of that lane? */
static bool has_worker(const backlog_t *self, int lane)
{
    const int *running = self->running;
    int slow = running[BACKLOG_SLOW] + running[BACKLOG_SLOW_GUEST];

    if ((lane == BACKLOG_SLOW || lane == BACKLOG_SLOW_GUEST) && slow >= self->slow_max)
        return false;
    if (lane != BACKLOG_QUICK && slow + running[BACKLOG_GUEST] >= self->beside_max)
        return false;
    return lane == BACKLOG_GUEST || running[BACKLOG_QUICK] + slow < self->leave_max;
}

/* The lane whose turn it is, of those where something waits that may begin: which waits for no
 * other one of its holder. -1: none. */
static int next_lane(const backlog_t *self)
{
    int next = -1;

    for (int i = 0; i < BACKLOG_LANES; i++)
        if ((next < 0 || self->turn[i] < self->turn[next]) && has_worker(self, i)
            && shares_next_holder(self->lanes[i]))
            next = i;
    return next;
}

static zmsg_t *take_next(backlog_t *self)
{
    int lane = next_lane(self);
    char *holder;
    zmsg_t *msg;

    if (lane < 0)
        return NULL;
    holder = memory_copy(shares_next_holder(self->lanes[lane]), "a holder of workers");
    msg = shares_take(self->lanes[lane]);
    for (int i = 0; i < BACKLOG_LANES; i++)
        if (i != lane)
            shares_hold(self->lanes[i], holder);
    free(holder);
    self->running[lane]++;
    self->turn[lane] = ++self->turns;
    if (next_lane(self) >= 0)
        pthread_cond_signal(&self->more); /* what was done may let several begin */
    return msg;
}

void backlog_done(backlog_t *self, backlog_lane_t lane, const char *holder)
{
    INVARIANT(lane < BACKLOG_LANES);
    pthread_mutex_lock(&self->mutex);
    INVARIANT(self->running[lane] > 0); /* more would begin than there are workers for */
    self->running[lane]--;
    for (int i = 0; i < BACKLOG_LANES; i++)
        shares_release(self->lanes[i], holder);
    pthread_mutex_unlock(&self->mutex);
    pthread_cond_signal(&self->more);
}

zmsg_t *backlog_take(backlog_t *self)
{
    zmsg_t *msg = NULL;

    pthread_mutex_lock(&self->mutex);
    while (!self->stopped && !(msg = take_next(self)))
        pthread_cond_wait(&self->more, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    return msg;
}

void backlog_stop(backlog_t *self)
{
    pthread_mutex_lock(&self->mutex);
    self->stopped = true;
    pthread_mutex_unlock(&self->mutex);
    pthread_cond_broadcast(&self->more);
}

size_t backlog_waiting(backlog_t *self)
{
    size_t n = 0;

    pthread_mutex_lock(&self->mutex);
    for (int i = 0; i < BACKLOG_LANES; i++)
        n += shares_waiting(self->lanes[i]);
    pthread_mutex_unlock(&self->mutex);
    return n;
}

bool backlog_is_full(backlog_t *self)
{
    const shares_t *quick = self->lanes[BACKLOG_QUICK];
    bool full;

    pthread_mutex_lock(&self->mutex);
    full = shares_waiting(quick) >= BACKLOG_OWN || shares_bytes(quick) >= BACKLOG_OWN_BYTES;
    pthread_mutex_unlock(&self->mutex);
    return full;
}
