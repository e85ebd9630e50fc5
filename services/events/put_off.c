#include "services/events/put_off.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ID_SIZE = 128 };

/* The connection waits for room; was told that there is some; sends what was missing. */
typedef enum state { WAITS, TOLD, COMES } state_t;

/* A connection whose batches were put off. */
typedef struct late {
    char *name; /* hex identity */
    zframe_t *identity;
    char id[ID_SIZE]; /* id of its key */
    char producer[sizeof(((batch_t *)0)->producer)];
    int64_t first, last; /* of this producer's batches: the first and last that are missing */
    size_t bytes;        /* bytes of the missing batches, as far as they were seen */
    state_t state;
    int64_t told_ms;
    void *place; /* its place in order */
} late_t;

struct put_off {
    zhashx_t *all;   /* name -> late_t of order */
    zlistx_t *order; /* late_t; the one that waits longest is first */
};

static void destroy_late(void **item)
{
    late_t *self = *item;

    zframe_destroy(&self->identity);
    free(self->name);
    free(self);
    *item = NULL;
}

put_off_t *put_off_new(void)
{
    _cleanup_(put_off_destroy) put_off_t *self = memory_new(sizeof(*self), "producers put off");

    self->all = memory_need(zhashx_new(), "producers put off");
    self->order = memory_need(zlistx_new(), "producers put off");
    zlistx_set_destructor(self->order, destroy_late);
    return take(self);
}

void put_off_destroy(put_off_t **self_p)
{
    put_off_t *self = *self_p;

    if (!self)
        return;
    zhashx_destroy(&self->all);
    zlistx_destroy(&self->order);
    free(self);
    *self_p = NULL;
}

static void forget_late(put_off_t *self, late_t *late)
{
    zhashx_delete(self->all, late->name);
    zlistx_delete(self->order, late->place);
}

/* Is the connection no longer waited for? Its producer may have dropped the batches, or the
 * connection may have ended. */
static bool is_over(const late_t *late, int64_t now_ms)
{
    return late->state != WAITS && now_ms - late->told_ms >= PUT_OFF_TOLD_MS;
}

static late_t *find_late(put_off_t *self, const char *name, int64_t now_ms)
{
    late_t *late = zhashx_lookup(self->all, name);

    if (late && is_over(late, now_ms)) {
        forget_late(self, late);
        late = NULL;
    }
    return late;
}

static bool has_place(const put_off_t *self, const char *id)
{
    int n = 0;

    if (zhashx_size(self->all) >= PUT_OFF_MAX)
        return false;
    for (late_t *one = zhashx_first(self->all); one; one = zhashx_next(self->all))
        n += !strcmp(one->id, id);
    return n < PUT_OFF_OF_KEY;
}

/* Remember a connection. NULL: too many are remembered; then its producer sends again by itself
 * when nothing was acknowledged for long. */
static late_t *add_late(put_off_t *self, const char *name, zframe_t *identity, const char *id)
{
    late_t *late;

    if (!has_place(self, id))
        return NULL;
    late = memory_new(sizeof(*late), "a producer put off");
    late->name = memory_copy(name, "a producer put off");
    late->identity = memory_need(zframe_dup(identity), "a producer put off");
    snprintf(late->id, sizeof(late->id), "%s", id);
    late->state = COMES;
    late->place = zlistx_add_end(self->order, late);
    zhashx_insert(self->all, late->name, late);
    return late;
}

/* Is an older batch than this one missing? A service's batches do not depend on older ones. */
static bool is_behind(const late_t *late, const batch_t *batch)
{
    return !batch->audit && !batch->oldest && !strcmp(batch->producer, late->producer)
           && batch->seq > late->first;
}

/* From this batch on, batches of the connection are missing. */
static void begin_wait(put_off_t *self, late_t *late, const batch_t *batch)
{
    late->state = WAITS;
    memcpy(late->producer, batch->producer, sizeof(late->producer));
    late->first = batch->seq;
    late->last = 0;
    late->bytes = 0;
    zlistx_move_end(self->order, late->place);
}

/* Count a missing batch once, however often it is sent meanwhile. */
static void count_missing(late_t *late, const batch_t *batch, size_t bytes)
{
    if (strcmp(batch->producer, late->producer) || batch->seq > late->last)
        late->bytes += bytes;
    if (late->bytes > PENDING_KEY_BYTES)
        late->bytes = PENDING_KEY_BYTES;
    if (!strcmp(batch->producer, late->producer) && batch->seq > late->last)
        late->last = batch->seq;
}

/* Note that some of the missing bytes came. */
static void count_arrived(put_off_t *self, late_t *late, size_t bytes)
{
    if (bytes < late->bytes)
        late->bytes -= bytes;
    else
        forget_late(self, late);
}

bool put_off_batch(put_off_t *self, const pending_t *pending, zframe_t *identity, const char *id,
                   const batch_t *batch, size_t bytes, int64_t now_ms)
{
    _cleanup_(free_mem) char *name = zframe_strhex(identity);
    late_t *late = find_late(self, name, now_ms);

    if (late && late->state == TOLD) {
        if (is_behind(late, batch))
            return true; /* sent before its producer was told; it will be sent again */
        late->state = COMES;
    }
    if ((!late || late->state == COMES) && pending_has_room(pending, id)) {
        if (late)
            count_arrived(self, late, bytes);
        return false;
    }
    if (!late)
        late = add_late(self, name, identity, id);
    if (late && late->state == COMES)
        begin_wait(self, late, batch);
    if (late)
        count_missing(late, batch, bytes);
    return true;
}

/* Bytes that connections with this key may still send after they were told. */
static size_t expected_bytes(const put_off_t *self, const char *id)
{
    size_t bytes = 0;

    for (late_t *one = zhashx_first(self->all); one; one = zhashx_next(self->all))
        if (one->state != WAITS && !strcmp(one->id, id))
            bytes += one->bytes;
    return bytes;
}

/* Is there room for what the connection has, beside what the others that were told may send? One
 * connection of a key is told in any case. */
static bool late_fits(const put_off_t *self, const pending_t *pending, const late_t *late)
{
    size_t room = pending_room(pending, late->id),
           before = room ? expected_bytes(self, late->id) : 0;

    return room && (!before || before + late->bytes <= room);
}

zframe_t *put_off_tell(put_off_t *self, const pending_t *pending, int64_t now_ms)
{
    for (late_t *late = zlistx_first(self->order); late; late = zlistx_next(self->order)) {
        if (is_over(late, now_ms)) {
            forget_late(self, late);
        } else if (late->state == WAITS && late_fits(self, pending, late)) {
            late->state = TOLD;
            late->told_ms = now_ms;
            return late->identity;
        }
    }
    return NULL;
}
