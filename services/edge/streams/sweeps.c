#include "services/edge/streams/sweeps.h"

#include <string.h>

void sweeps_init(sweeps_t *self, registry_t *registry)
{
    self->registry = registry;
}

bool sweeps_are_done(const sweeps_t *self)
{
    return self->count == 0;
}

uint64_t sweeps_done(const sweeps_t *self)
{
    uint64_t done = self->number;

    for (int i = 0; i < self->count; i++)
        if (self->list[i].now.since <= done)
            done = self->list[i].now.since - 1;
    return done;
}

/* ---- asking ---- */

static void join_pass(sweep_pass_t *pass, uint64_t number, sweep_change_t change)
{
    if (!pass->asked)
        pass->since = number;
    if (!pass->asked || change.log != SWEEPS_NO_LOG)
        pass->last = change;
    pass->asked = number;
}

static sweep_t *sweep_of(sweeps_t *self, const stream_key_t *key)
{
    for (int i = 0; i < self->count; i++) {
        sweep_t *one = &self->list[i];

        if (one->kind == STREAM_ALL && !one->begun)
            return one;
        if (one->kind == key->kind && one->len == key->len
            && !memcmp(one->text, key->text, key->len))
            return one;
    }
    return NULL;
}

static sweep_t *add_sweep(sweeps_t *self, const stream_key_t *key)
{
    sweep_t *one = &self->list[self->count++];

    *one = (sweep_t){.kind = key->kind, .len = key->len};
    memcpy(one->text, key->text, key->len);
    return one;
}

/* The newest change of a log that any sweep waits for. */
static sweep_change_t newest_change(const sweeps_t *self)
{
    sweep_change_t out = {.log = SWEEPS_NO_LOG};
    uint64_t asked = 0;

    for (int i = 0; i < self->count; i++) {
        const sweep_pass_t *passes[] = {&self->list[i].now, &self->list[i].again};

        for (size_t k = 0; k < sizeof(passes) / sizeof(passes[0]); k++)
            if (passes[k]->asked > asked && passes[k]->last.log != SWEEPS_NO_LOG) {
                asked = passes[k]->asked;
                out = passes[k]->last;
            }
    }
    return out;
}

/* Replaces all waiting sweeps by a single one over every stream, for all their changes and the
 * newest. */
static sweep_t *merge_into_all(sweeps_t *self)
{
    uint64_t done = sweeps_done(self);
    sweep_change_t last = newest_change(self);

    self->count = 0;
    add_sweep(self, &(stream_key_t){STREAM_ALL, "", 0});
    self->list[0].now.since = done < self->number ? done + 1 : self->number;
    self->list[0].now.asked = self->number;
    self->list[0].now.last = last;
    return &self->list[0];
}

uint64_t sweeps_ask(sweeps_t *self, const stream_key_t *key, sweep_change_t change)
{
    sweep_t *one;

    self->number++;
    if (registry_is_empty(self->registry))
        return self->number;
    one = key->len <= SWEEPS_KEY_BYTES ? sweep_of(self, key) : merge_into_all(self);
    if (!one && self->count == SWEEPS_MAX)
        one = merge_into_all(self);
    if (!one)
        one = add_sweep(self, key);
    join_pass(one->begun ? &one->again : &one->now, self->number, change);
    return self->number;
}

/* ---- judging ---- */

/* Removes the first sweep; if it needs another pass it is appended, after the other sweeps. */
static void end_pass(sweeps_t *self)
{
    sweep_t first = self->list[0];

    self->count--;
    memmove(self->list, self->list + 1, (size_t)self->count * sizeof(first));
    if (!first.again.asked)
        return;
    first.now = first.again;
    first.again = (sweep_pass_t){0};
    first.begun = false;
    self->list[self->count++] = first;
}

/* Indexes the fresh streams that the pass must see. False: the budget ended before that. */
static bool begin_pass(sweeps_t *self, sweep_t *one, const stream_key_t *key, unsigned *budget)
{
    while (*budget && registry_index_one(self->registry, one->now.asked))
        --*budget;
    if (!*budget)
        return false;
    one->begun = true;
    one->left = registry_count(self->registry, key);
    return true;
}

stream_t *sweeps_next(sweeps_t *self, unsigned *budget, sweep_change_t *ret_change)
{
    while (self->count && *budget) {
        sweep_t *one = &self->list[0];
        stream_key_t key = {one->kind, one->text, one->len};
        stream_t *stream;

        if (!one->begun && !begin_pass(self, one, &key, budget))
            return NULL;
        stream = one->left ? registry_turn(self->registry, &key) : NULL;
        if (!stream) {
            end_pass(self);
            continue;
        }
        one->left--;
        --*budget;
        if (stream->judged < one->now.asked) {
            stream->judged = self->number;
            *ret_change = one->now.last;
            return stream;
        }
    }
    return NULL;
}
