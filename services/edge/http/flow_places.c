#include "services/edge/http/flow_places.h"

/* Places in the order in which turns go round; those from old on are taken, and may be replaced. */
typedef struct {
    size_t n, old;
    int each[FLOW_PLACES];
} ring_t;

typedef struct {
    int first, end;
} range_t;

static range_t range_of(bool is_long, bool is_framed)
{
    static const range_t ranges[2][2] = {{{0, 8}, {0, 2}}, {{8, 10}, {8, 9}}};

    return ranges[is_long][is_framed];
}

/* What is free, or was when the browser sent its requests: all of these see the same. */
static void add_free(ring_t *ring, const flow_place_t *places, range_t range, int64_t now_s)
{
    for (int i = range.first; i < range.end; i++)
        if (!places[i].taken || places[i].since_s + FLOW_PLACES_RECENT_S > now_s)
            ring->each[ring->n++] = i;
    ring->old = ring->n;
}

static bool has(const ring_t *ring, int place)
{
    for (size_t i = 0; i < ring->n; i++)
        if (ring->each[i] == place)
            return true;
    return false;
}

/* The oldest beside, as far as they are needed. */
static void add_old(ring_t *ring, const flow_place_t *places, range_t range)
{
    while (ring->n < FLOW_PLACES_AT_ONCE && (int)ring->n < range.end - range.first) {
        int oldest = -1;

        for (int i = range.first; i < range.end; i++)
            if (!has(ring, i) && (oldest < 0 || places[i].since_s < places[oldest].since_s))
                oldest = i;
        ring->each[ring->n++] = oldest;
    }
}

int flow_place(const flow_place_t places[FLOW_PLACES], bool is_long, bool is_framed, int64_t now_s,
               uint64_t turn)
{
    range_t range = range_of(is_long, is_framed);
    ring_t ring = {0};

    add_free(&ring, places, range, now_s);
    if (!is_framed)
        add_old(&ring, places, range);
    for (size_t i = 0; i < ring.n; i++) {
        size_t at = (size_t)((turn + i) % ring.n);

        if (at >= ring.old || !places[ring.each[at]].taken)
            return ring.each[at];
    }
    return is_framed || !ring.n ? -1 : ring.each[turn % ring.n];
}

int nonce_place(bool is_framed, uint64_t turn)
{
    return is_framed ? NONCE_PAGES + (int)(turn % NONCE_FRAMES) : (int)(turn % NONCE_PAGES);
}
