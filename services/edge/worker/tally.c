#include "services/edge/worker/tally.h"

#include <string.h>

/* A row is taken while its turn is odd. */
typedef struct row {
    tally_counts_t counts; /* on a cache line of its own */
    uint32_t turn;
    uint32_t next; /* row in the chain of its bucket, or of the free ones; 0: the last */
    int64_t revision;
    uint64_t log;
    char id[TALLY_ID_MAX + 1];
} __attribute__((aligned(64))) row_t;

struct tally {
    size_t rows, taken;
    uint32_t buckets, free; /* buckets: a power of two; free: the first free row */
    row_t all[];            /* all[0] is that of the others; behind all[rows] stand the buckets */
};

static uint32_t bucket_count(size_t rows)
{
    uint32_t count = 16;

    while (count < rows)
        count *= 2;
    return count;
}

static uint32_t *buckets_of(tally_t *self)
{
    return (uint32_t *)(self->all + self->rows + 1);
}

static uint32_t *bucket_of(tally_t *self, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return &buckets_of(self)[hash & (self->buckets - 1)];
}

size_t tally_size(size_t rows)
{
    return sizeof(tally_t) + (rows + 1) * sizeof(row_t) + bucket_count(rows) * sizeof(uint32_t);
}

/* Chains, free rows and their number, by the turns of the rows alone. */
static void link_rows(tally_t *self)
{
    memset(buckets_of(self), 0, self->buckets * sizeof(uint32_t));
    self->free = 0;
    self->taken = 0;
    for (size_t i = self->rows; i > 0; i--) {
        row_t *row = &self->all[i];
        uint32_t *first = row->turn & 1 ? bucket_of(self, row->id) : &self->free;

        row->next = *first;
        *first = (uint32_t)i;
        self->taken += row->turn & 1;
    }
}

tally_t *tally_init(void *memory, size_t rows)
{
    tally_t *self = memory;

    self->rows = rows;
    self->buckets = bucket_count(rows);
    link_rows(self);
    return self;
}

/* Ids stand in labels as they are. */
static bool is_label(const char *id)
{
    size_t len = strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-.");

    return len > 0 && len <= TALLY_ID_MAX && !id[len];
}

/* 0: it has none. */
static uint32_t find_row(tally_t *self, const char *id)
{
    uint32_t number = *bucket_of(self, id);

    while (number && strcmp(self->all[number].id, id) != 0)
        number = self->all[number].next;
    return number;
}

static void set_turn(row_t *row, uint32_t turn)
{
    __atomic_store_n(&row->turn, turn, __ATOMIC_RELEASE);
}

/* A row that no route has becomes this one's: its turn is odd when all else is written. */
static uint32_t begin_row(tally_t *self, const char *id)
{
    uint32_t number = self->free, *bucket = bucket_of(self, id);
    row_t *row = &self->all[number];

    if (!number)
        return 0;
    self->free = row->next;
    memset(&row->counts, 0, sizeof(row->counts));
    memset(row->id, 0, sizeof(row->id));
    memcpy(row->id, id, strlen(id));
    row->next = *bucket;
    set_turn(row, row->turn + 1);
    *bucket = number;
    self->taken++;
    return number;
}

route_place_t tally_take(tally_t *self, const char *id, uint64_t log, int64_t revision)
{
    uint32_t number;
    row_t *row;

    if (!is_label(id))
        return (route_place_t){0};
    number = find_row(self, id);
    if (!number)
        number = begin_row(self, id);
    if (!number)
        return (route_place_t){0};
    row = &self->all[number];
    row->log = log;
    row->revision = revision;
    return (route_place_t){.number = number, .turn = row->turn};
}

void tally_drop(tally_t *self, const char *id)
{
    uint32_t number = is_label(id) ? find_row(self, id) : 0, *at = bucket_of(self, id);
    row_t *row = &self->all[number];

    if (!number)
        return;
    while (*at != number)
        at = &self->all[*at].next;
    *at = row->next;
    set_turn(row, row->turn + 1);
    row->next = self->free;
    self->free = number;
    self->taken--;
}

void tally_sweep(tally_t *self, bool (*is_there)(void *context, const char *id), void *context,
                 uint64_t log, int64_t revision)
{
    for (size_t i = 1; i <= self->rows; i++) {
        row_t *row = &self->all[i];
        bool ahead = row->log == log && row->revision > revision;

        if (row->turn & 1 && !ahead && !is_there(context, row->id))
            set_turn(row, row->turn + 1);
    }
    link_rows(self);
}

/* ---- without the lock ---- */

static void add(uint64_t *counter, uint64_t value)
{
    if (value)
        __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

void tally_count(tally_t *self, route_place_t place, const tally_request_t *request)
{
    row_t *row = &self->all[place.number <= self->rows ? place.number : 0];
    unsigned class = request->status / 100;

    if (__atomic_load_n(&row->turn, __ATOMIC_ACQUIRE) != place.turn)
        row = &self->all[0];
    if (class >= 1 && class <= TALLY_CLASSES)
        add(&row->counts.requests[class - 1], 1);
    add(&row->counts.request_bytes, request->request_bytes);
    add(&row->counts.response_bytes, request->response_bytes);
    add(&row->counts.upstream_errors, request->upstream_failed);
}

size_t tally_taken(const tally_t *self)
{
    return __atomic_load_n(&self->taken, __ATOMIC_RELAXED);
}

bool tally_read(const tally_t *self, size_t number, char id[TALLY_ID_MAX + 1],
                tally_counts_t *counts)
{
    const row_t *row = &self->all[number];
    uint32_t turn = __atomic_load_n(&row->turn, __ATOMIC_ACQUIRE);

    if (number && !(turn & 1))
        return false;
    memcpy(id, row->id, sizeof(row->id));
    memcpy(counts, &row->counts, sizeof(*counts));
    id[TALLY_ID_MAX] = '\0';
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&row->turn, __ATOMIC_ACQUIRE) == turn;
}
