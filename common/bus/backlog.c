#include "common/bus/backlog.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/bus/work.h"

enum {
    LANES = 2,            /* the lanes beside the quick one: slow and guests */
    FRAME_OVERHEAD = 256, /* bytes that a waiting frame costs beside its content */
    FREE_SHARE = 4        /* one holder leaves a fourth of the workers to others, one at least */
};

static const shares_bounds_t bounds[] = {
    [BACKLOG_QUICK] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES, 0, 0},
    [BACKLOG_SLOW] = {BACKLOG_OWN, BACKLOG_OWN_BYTES, BACKLOG_ALL, BACKLOG_ALL_BYTES, 0, 0},
    [BACKLOG_GUEST] = {BACKLOG_GUESTS_OWN, BACKLOG_GUESTS_OWN_BYTES, BACKLOG_GUESTS_ALL,
                       BACKLOG_GUESTS_ALL_BYTES, BACKLOG_GUESTS_OWN, BACKLOG_GUESTS_OWN_BYTES},
};

/* A guest's one account, of several. */
static const shares_bounds_t bounds_of_account = {
    BACKLOG_GUESTS_OWN / 2,   BACKLOG_GUESTS_OWN_BYTES / 2, BACKLOG_GUESTS_ALL,
    BACKLOG_GUESTS_ALL_BYTES, BACKLOG_GUESTS_OWN,           BACKLOG_GUESTS_OWN_BYTES};

/* For the queue behind the lanes: a request that a lane accepted is not refused on its way to a
 * worker. */
static const shares_bounds_t boundless = {
    .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = SIZE_MAX, .all_bytes = SIZE_MAX};

struct backlog {
    work_t *work; /* what workers take: all quick requests, and those of the other lanes that may
                     begin now */
    shares_t *beside[LANES]; /* the slow lane and the guests' lane */
    int next;                /* index of the lane that has the next turn */
    int running[LANES], running_max[LANES], beside_max; /* of a lane, and of both together */
};

static void destroy_msg(void **item)
{
    zmsg_destroy((zmsg_t **)item);
}

static int index_of(backlog_lane_t lane)
{
    INVARIANT(lane == BACKLOG_SLOW || lane == BACKLOG_GUEST);
    return (int)(lane - BACKLOG_SLOW);
}

/* Both lanes get half of the workers, or two of three, because slow ones leave one of those to
 * guests: nothing interrupts what computes for seconds, and all sign-ins wait among the guests. */
static void bound_lanes(backlog_t *self, int workers)
{
    int most = workers == 3 ? 2 : workers / 2;

    self->beside_max = most > 1 ? most : 1;
    self->running_max[index_of(BACKLOG_GUEST)] = self->beside_max;
    self->running_max[index_of(BACKLOG_SLOW)] = most > 1 ? most - 1 : 1;
}

backlog_t *backlog_new(int workers)
{
    backlog_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    bound_lanes(self, workers);
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

/* The lane whose turn it is, of those where something waits that may begin. -1: none. */
static int next_beside(backlog_t *self)
{
    if (self->running[0] + self->running[1] == self->beside_max)
        return -1;
    for (int i = 0; i < LANES; i++) {
        int lane = (self->next + i) % LANES;

        if (self->running[lane] < self->running_max[lane] && shares_waiting(self->beside[lane])) {
            self->next = (lane + 1) % LANES;
            return lane;
        }
    }
    return -1;
}

/* Let requests of the slow lanes begin, as far as workers are left for them. In the workers' queue
 * they share one owner, so that they take turns with the quick ones as a single peer would. */
static void start_beside(backlog_t *self)
{
    int lane;

    while ((lane = next_beside(self)) >= 0) {
        shares_t *waiting = self->beside[lane];
        char *holder = memory_copy(shares_next_holder(waiting), "a holder of workers");
        zmsg_t *msg = shares_take(waiting);
        int r = work_put_held(self->work, "", holder, &boundless, size_of(msg), &msg);

        free(holder);

        INVARIANT(!r); /* no bounds apply, so only memory can be missing: as in CZMQ */
        self->running[lane]++;
    }
}

int backlog_put(backlog_t *self, const char *owner, backlog_lane_t lane, zmsg_t **msg)
{
    return backlog_put_held(self, owner, "", lane, msg);
}

/* Whoever it speaks for, a guest has the room of one: its owners are a group. */
static int put_beside(shares_t *waiting, const char *owner, const char *holder, backlog_lane_t lane,
                      const shares_bounds_t *most, zmsg_t *msg)
{
    _cleanup_(free_mem) char *peer = memory_copy(owner, "a peer's name");
    char *space = strchr(peer, ' ');

    if (space)
        *space = '\0';
    if (space && space[1] && most == &bounds[BACKLOG_GUEST])
        most = &bounds_of_account;
    return shares_put_grouped(waiting, owner, lane == BACKLOG_GUEST ? peer : "", holder, most,
                              size_of(msg), msg);
}

static int put_bounded(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       const shares_bounds_t *most, zmsg_t **msg)
{
    int r;

    INVARIANT(lane <= BACKLOG_GUEST);
    if (lane == BACKLOG_QUICK)
        return work_put_held(self->work, owner, holder, most, size_of(*msg), msg);
    r = put_beside(self->beside[index_of(lane)], owner, holder, lane, most, *msg);
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
    INVARIANT(self->running[index_of(lane)] > 0); /* more would begin than there are workers for */
    self->running[index_of(lane)]--;
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
