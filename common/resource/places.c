#include "common/resource/places.h"

#include <stdio.h>
#include <string.h>

enum { COMPLAIN_MS = 10000 };

void places_done(places_t *self)
{
    while (self->count > 0)
        transit_destroy(&self->list[--self->count].way);
}

place_t *places_find(places_t *self, const void *identity, size_t len)
{
    for (int i = 0; i < self->count; i++) {
        place_t *place = &self->list[i];

        if (place->identity_len == len && !memcmp(place->identity, identity, len))
            return place;
    }
    return NULL;
}

/* A place stays taken after its worker has left, while messages to it are still queued in our
 * memory: otherwise one key could fill the memory with any number of connections that do not
 * read. */
static bool is_taken(const place_t *place)
{
    return subscriber_is_live(&place->sub) || transit_bytes(place->way) > 0;
}

static bool place_give(place_t *place, const void *identity, size_t len, const char *peer,
                       const place_t *of_peer)
{
    transit_t *way = transit_new(of_peer ? of_peer->way : NULL);

    if (!way)
        return false;
    transit_destroy(&place->way);
    memset(place, 0, sizeof(*place));
    place->way = way;
    snprintf(place->peer, sizeof(place->peer), "%s", peer);
    place->identity_len = len;
    memcpy(place->identity, identity, len);
    return true;
}

place_t *places_take(places_t *self, place_t *own, const void *identity, size_t len,
                     const char *peer)
{
    place_t *spare = NULL;
    const place_t *of_peer = NULL;
    int n = 0;

    for (int i = 0; i < self->count; i++) {
        place_t *place = &self->list[i];
        bool taken = place != own && is_taken(place);

        if (!strcmp(place->peer, peer)) {
            of_peer = place;
            n += taken;
        }
        if (!taken)
            spare = place;
    }
    if (n >= PLACES_KEY_MAX || len > PLACES_IDENTITY_MAX)
        return NULL;
    if (own)
        return own;
    if (!spare && self->count < PLACES_MAX)
        spare = &self->list[self->count];
    if (!spare || !place_give(spare, identity, len, peer, of_peer))
        return NULL;
    if (spare == &self->list[self->count])
        self->count++;
    return spare;
}

bool places_reach(const places_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++)
        if (subscriber_is_reached(&self->list[i].sub) && !strcmp(self->list[i].name, name))
            return true;
    return false;
}

bool places_wait_for(const places_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++)
        if (subscriber_is_live(&self->list[i].sub) && !strcmp(self->list[i].name, name))
            return true;
    return false;
}

bool places_turn_away(places_t *self, int64_t now_ms)
{
    self->turned_away_ms = now_ms;
    if (self->turned_away_said_ms && now_ms - self->turned_away_said_ms < COMPLAIN_MS)
        return false;
    self->turned_away_said_ms = now_ms;
    return true;
}

bool places_somebody_is_turned_away(const places_t *self)
{
    return self->turned_away_ms != 0;
}

bool places_forget_turned_away(places_t *self, int64_t now_ms)
{
    if (!self->turned_away_ms || now_ms - self->turned_away_ms <= SUBSCRIBER_DEAD_MS)
        return false;
    self->turned_away_ms = 0;
    return true;
}

static bool has_had(place_t *const *served, int n, const place_t *place)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(served[i]->peer, place->peer))
            return true;
    return false;
}

int places_choose(places_t *self, bool (*is_due)(const place_t *, int64_t), int64_t at,
                  place_t *ret[PLACES_PER_TURN])
{
    int n = 0;

    for (int i = 0; i < self->count && n < PLACES_PER_TURN; i++) {
        place_t *place = &self->list[(self->first + i) % self->count];

        if (is_due(place, at) && !has_had(ret, n, place))
            ret[n++] = place;
    }
    return n;
}

void places_next_turn(places_t *self)
{
    self->first = self->count ? (self->first + 1) % self->count : 0;
}
