#include "common/resource/roster.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES_MAX = 64, HEAD_BYTES = 400 /* of a notification, without its workers */ };

typedef struct other {
    char *name;
    int64_t heard_ms;
    json_t *said;    /* last complete list: {log, workers: {name: acked}, lost: {name: acked}} */
    json_t *pending; /* the same, of which parts are missing */
    int64_t number;  /* of the newest list */
    int64_t parts;   /* received of it */
} other_t;

struct roster {
    char *own;
    other_t others[COPIES_MAX];
    int count;
};

roster_t *roster_new(const char *own)
{
    roster_t *self = calloc(1, sizeof(*self));

    if (self && !(self->own = strdup(own))) {
        free(self);
        self = NULL;
    }
    return self;
}

static void roster_forget(roster_t *self, int i)
{
    other_t *other = &self->others[i];

    free(other->name);
    json_decref(other->said);
    json_decref(other->pending);
    *other = self->others[--self->count];
}

void roster_destroy(roster_t **self_p)
{
    roster_t *self = *self_p;

    if (!self)
        return;
    while (self->count > 0)
        roster_forget(self, 0);
    free(self->own);
    free(self);
    *self_p = NULL;
}

/* ---- out ---- */

static int say_part(const char *own, int64_t number, const char *log_id, int64_t part, bool last,
                    json_t *workers, json_t *lost, roster_say_fn say, void *context)
{
    _cleanup_(json_clear_ref) json_t *message = json_pack(
        "{s:s, s:I, s:I, s:b, s:s, s:O, s:O}", "copy", own, "number", (json_int_t)number, "part",
        (json_int_t)part, "last", last, "log", log_id, "workers", workers, "lost", lost);
    _cleanup_(free_mem) char *text =
        message ? json_dumps(message, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    return text ? say(context, text) : -ENOMEM;
}

/* Upper bound of a worker's bytes in JSON: an escaped character takes six bytes; plus quotes,
 * colon, number and comma. */
static size_t bytes_of(const char *name)
{
    return 6 * strlen(name) + 24;
}

int roster_write(const char *own, int64_t number, const char *log_id,
                 const roster_worker_t *workers, int count, roster_say_fn say, void *context)
{
    int i = 0, r = 0;

    for (int64_t part = 0; !r; part++) {
        _cleanup_(json_clear_ref) json_t *some = json_object();
        _cleanup_(json_clear_ref) json_t *lost = json_object();
        size_t bytes = HEAD_BYTES;

        for (; i < count && bytes + bytes_of(workers[i].name) <= ROSTER_BYTES; i++) {
            bytes += bytes_of(workers[i].name);
            json_object_set_new(workers[i].lost ? lost : some, workers[i].name,
                                json_integer(workers[i].acked));
        }
        r = say_part(own, number, log_id, part, i == count, some, lost, say, context);
        if (i == count)
            return r;
    }
    return r;
}

/* ---- in ---- */

static other_t *roster_find(roster_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++)
        if (!strcmp(self->others[i].name, name))
            return &self->others[i];
    return NULL;
}

static other_t *roster_add(roster_t *self, const char *name)
{
    other_t *other = &self->others[self->count];

    if (self->count == COPIES_MAX)
        return NULL;
    *other = (other_t){.name = strdup(name)};
    if (!other->name)
        return NULL;
    self->count++;
    return other;
}

/* Append a part to the pending list. Parts of one list arrive in order, from one transaction; an
 * incomplete list with another number is dropped. */
static void roster_join(other_t *other, int64_t number, int64_t part, const char *log_id,
                        json_t *workers, json_t *lost, bool last)
{
    if (part == 0) {
        json_decref(other->pending);
        other->pending =
            json_pack("{s:s, s:O, s:O}", "log", log_id, "workers", workers, "lost", lost);
        other->number = number;
        other->parts = 1;
    } else if (other->pending && number == other->number && part == other->parts) {
        json_object_update(json_object_get(other->pending, "workers"), workers);
        json_object_update(json_object_get(other->pending, "lost"), lost);
        other->parts++;
    } else {
        return;
    }
    if (!last)
        return;
    json_decref(other->said);
    other->said = other->pending;
    other->pending = NULL;
}

/* Copies number their lists and parts, and these arrive in order: an older number is a replay. */
static bool is_next(const other_t *other, int64_t number, int64_t part)
{
    return number > other->number || (number == other->number && part >= other->parts);
}

int roster_take(roster_t *self, const char *text, int64_t now_ms)
{
    _cleanup_(json_clear_ref) json_t *message = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *copy, *log_id;
    json_int_t number, part;
    json_t *workers, *lost;
    bool known;
    int last;
    other_t *other;

    if (!message
        || json_unpack(message, "{s:s, s:I, s:I, s:b, s:s, s:o, s:o}", "copy", &copy, "number",
                       &number, "part", &part, "last", &last, "log", &log_id, "workers", &workers,
                       "lost", &lost)
        || !json_is_object(workers) || !json_is_object(lost))
        return -EBADMSG;
    if (!strcmp(copy, self->own))
        return 0;
    other = roster_find(self, copy);
    known = other != NULL;
    if (known && !is_next(other, number, part))
        return -ESTALE;
    if (!other && !(other = roster_add(self, copy)))
        return -EBADMSG;
    other->heard_ms = now_ms;
    roster_join(other, number, part, log_id, workers, lost, last);
    return !known;
}

bool roster_expire(roster_t *self, int64_t before_ms)
{
    int count = self->count;

    for (int i = self->count - 1; i >= 0; i--)
        if (self->others[i].heard_ms < before_ms)
            roster_forget(self, i);
    return self->count != count;
}

void roster_spare(roster_t *self, int64_t now_ms)
{
    for (int i = 0; i < self->count; i++)
        self->others[i].heard_ms = now_ms;
}

/* ---- asked ---- */

int roster_copies(const roster_t *self)
{
    return self->count;
}

bool roster_lacks(const roster_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++)
        if (!json_object_get(json_object_get(self->others[i].said, "workers"), name))
            return true;
    return false;
}

/* list: "workers" or "lost". */
static bool is_in(const roster_t *self, const char *list, const char *log_id, const char *name,
                  int64_t *ret_acked)
{
    bool found = false;

    *ret_acked = 0;
    for (int i = 0; i < self->count; i++) {
        const json_t *said = self->others[i].said;
        const json_t *acked = json_object_get(json_object_get(said, list), name);
        const char *log = json_string_value(json_object_get(said, "log"));
        int64_t revision = log && !strcmp(log, log_id) ? json_integer_value(acked) : 0;

        if (!acked)
            continue;
        *ret_acked = found && *ret_acked < revision ? *ret_acked : revision;
        found = true;
    }
    return found;
}

bool roster_hears(const roster_t *self, const char *log_id, const char *name, int64_t *ret_acked)
{
    return is_in(self, "workers", log_id, name, ret_acked);
}

static void each_in(const roster_t *self, const char *list, const char *log_id, roster_fn tell,
                    void *context)
{
    _cleanup_(json_clear_ref) json_t *all = json_object();
    bool lost = !strcmp(list, "lost");
    const char *name;
    json_t *value;

    for (int i = 0; i < self->count; i++)
        json_object_update(all, json_object_get(self->others[i].said, list));
    json_object_foreach(all, name, value)
    {
        roster_worker_t worker = {.name = name, .lost = lost};
        int64_t unused;

        (void)value;
        if (lost && roster_hears(self, log_id, name, &unused))
            continue;
        is_in(self, list, log_id, name, &worker.acked);
        tell(context, &worker);
    }
}

void roster_each(const roster_t *self, const char *log_id, roster_fn tell, void *context)
{
    each_in(self, "workers", log_id, tell, context);
    each_in(self, "lost", log_id, tell, context);
}
