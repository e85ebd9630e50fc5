#include "services/edge/http/rotation.h"

_Static_assert(ROTATIONS_MAX % ROTATION_WAYS == 0, "whole sets of places");

static rotation_t *set_of(rotations_t *self, uint64_t key)
{
    return &self->each[key % (ROTATIONS_MAX / ROTATION_WAYS) * ROTATION_WAYS];
}

/* NULL: it has no place. */
static rotation_t *find_rotation(rotation_t *set, uint64_t key)
{
    for (rotation_t *one = set; one < set + ROTATION_WAYS; one++)
        if (atomic_load(&one->key) == key)
            return one;
    return NULL;
}

/* A free place, or the one that was used last longest ago. */
static rotation_t *choose_place(rotation_t *set)
{
    rotation_t *oldest = set;

    for (rotation_t *one = set; one < set + ROTATION_WAYS; one++) {
        if (!atomic_load(&one->key))
            return one;
        if (atomic_load(&one->used_s) < atomic_load(&oldest->used_s))
            oldest = one;
    }
    return oldest;
}

/* Numbers go on from those of whoever had the place: they may begin anywhere. Where two workers
 * take a place each, the first of the two is the backend's, and the other one is free again. */
static rotation_t *take_place(rotation_t *set, uint64_t key, uint64_t now_s)
{
    rotation_t *found = NULL, *place;
    uint64_t held;

    while (!found) {
        place = choose_place(set);
        held = atomic_load(&place->key);
        atomic_store(&place->used_s, now_s);
        atomic_compare_exchange_strong(&place->key, &held, key);
        found = find_rotation(set, key);
        held = key;
        if (found && found != place)
            atomic_compare_exchange_strong(&place->key, &held, 0);
    }
    return found;
}

uint64_t rotation_look(rotations_t *self, uint64_t key)
{
    rotation_t *one = find_rotation(set_of(self, key), key);

    return one ? atomic_load(&one->next) : 0;
}

uint64_t rotation_next(rotations_t *self, uint64_t key, uint64_t now)
{
    rotation_t *set = set_of(self, key), *one = find_rotation(set, key);
    uint64_t now_s = now / 1000;

    if (!one)
        one = take_place(set, key, now_s);
    if (atomic_load(&one->used_s) != now_s)
        atomic_store(&one->used_s, now_s); /* not written for each request */
    return atomic_fetch_add(&one->next, 1);
}
