#include "common/bus/backlog.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/bus/work.h"

enum {
    LANES = 2,            /* the lanes beside the quick one: slow and guests */
    FRAME_OVERHEAD = 256, /* bytes that a waiting frame costs beside its content */
    FREE_SHARE = 4        /* one holder leaves a fourth of the workers to others, one at least */
};

static const shares_bounds_t bounds[] = {
    [BACKLOG_QUICK] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES},
    [BACKLOG_SLOW] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES},
    [BACKLOG_GUEST] = {BACKLOG_GUESTS_OWN, BACKLOG_GUESTS_OWN_BYTES, BACKLOG_GUESTS_ALL,
                       BACKLOG_GUESTS_ALL_BYTES},
};

/* For the queue behind the lanes: a request that a lane accepted is not refused on its way to a
 * worker. */
static const shares_bounds_t boundless = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};

struct backlog {
    work_t *work; /* what workers take: all quick requests, and those of the other lanes that may
                     begin now */
    shares_t *beside[LANES]; /* the slow lane and the guests' lane */
    int next;                /* index of the lane that has the next turn */
    int running, running_max;
};

static void destroy_msg(void **item)
{
    zmsg_destroy((zmsg_t **)item);
}

backlog_t *backlog_new(int workers)
{
    backlog_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->running_max = workers > 1 ? workers / 2 : 1;
    self->work = work_new(SIZE_MAX, false);
    for (int i = 0; i < LANES; i++)
        self->beside[i] = shares_new(destroy_msg);
    if (!self->work || !self->beside[0] || !self->beside[1])
        backlog_destroy(&self);
    else if (workers > 1)
        work_bound_held(self->work, (size_t)(workers - (workers + FREE_SHARE - 1) / FREE_SHARE));
    return self;
}

void backlog_destroy(backlog_t **self_p)
{
    backlog_t *self = *self_p;

    if (!self)
        return;
    work_destroy(&self->work);
    for (int i = 0; i < LANES; i++)
        shares_destroy(&self->beside[i]);
    free(self);
    *self_p = NULL;
}

static size_t size_of(zmsg_t *msg)
{
    return zmsg_content_size(msg) + zmsg_size(msg) * FRAME_OVERHEAD;
}

/* The lane whose turn it is; NULL: nothing waits in any. */
static shares_t *next_beside(backlog_t *self)
{
    for (int i = 0; i < LANES; i++) {
        int lane = (self->next + i) % LANES;

        if (shares_waiting(self->beside[lane])) {
            self->next = (lane + 1) % LANES;
            return self->beside[lane];
        }
    }
    return NULL;
}

/* Let requests of the slow lanes begin, as far as workers are left for them. In the workers' queue
 * they share one owner, so that they take turns with the quick ones as a single peer would. */
static void start_beside(backlog_t *self)
{
    shares_t *lane;

    while (self->running < self->running_max && (lane = next_beside(self))) {
        char *holder = memory_copy(shares_next_holder(lane), "a holder of workers");
        zmsg_t *msg = shares_take(lane);
        int r = work_put_held(self->work, "", holder, &boundless, size_of(msg), &msg);

        free(holder);

        INVARIANT(!r); /* no bounds apply, so only memory can be missing: as in CZMQ */
        self->running++;
        INVARIANT(self->running <= self->running_max);
    }
}

int backlog_put(backlog_t *self, const char *owner, backlog_lane_t lane, zmsg_t **msg)
{
    return backlog_put_held(self, owner, "", lane, msg);
}

static int put_bounded(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       const shares_bounds_t *most, zmsg_t **msg)
{
    int r;

    INVARIANT(lane <= BACKLOG_GUEST);
    if (lane == BACKLOG_QUICK)
        return work_put_held(self->work, owner, holder, most, size_of(*msg), msg);
    r = shares_put_held(self->beside[lane - BACKLOG_SLOW], owner, holder, most, size_of(*msg),
                        *msg);
    if (r)
        return r;
    *msg = NULL;
    start_beside(self);
    return 0;
}

int backlog_put_held(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                     zmsg_t **msg)
{
    INVARIANT(lane <= BACKLOG_GUEST);
    return put_bounded(self, owner, holder, lane, &bounds[lane], msg);
}

void backlog_put_again(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       zmsg_t **msg)
{
    int r = put_bounded(self, owner, holder, lane, &boundless, msg);

    INVARIANT(!r); /* no bounds apply, so only memory can be missing */
}

void backlog_done(backlog_t *self, backlog_lane_t lane)
{
    if (lane == BACKLOG_QUICK)
        return;
    INVARIANT(self->running > 0); /* more would begin than there are workers for */
    self->running--;
    start_beside(self);
}

void backlog_released(backlog_t *self, const char *holder)
{
    work_release(self->work, holder);
}

zmsg_t *backlog_take(backlog_t *self)
{
    return work_take(self->work);
}

void backlog_stop(backlog_t *self)
{
    work_stop(self->work);
}

size_t backlog_waiting(const backlog_t *self)
{
    return work_waiting(self->work) + shares_waiting(self->beside[0])
           + shares_waiting(self->beside[1]);
}

bool backlog_is_full(const backlog_t *self)
{
    return work_waiting(self->work) >= BACKLOG_OWN || work_bytes(self->work) >= BACKLOG_OWN_BYTES;
}
