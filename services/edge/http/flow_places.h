/* Where a browser keeps the sign-ins that it has under way: cookies of a few names, flows at the
 * sign-in host and nonces at the route's, so that they are bounded in number and bytes whatever
 * begins at once. Requests that a
 * browser sends at once have the same cookies, and none sees what the answers to the others set:
 * they get places one behind the other, by a number that each has for itself. No clock, no nginx in
 * here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FLOW_PLACES = 10,        /* 8 for flows of up to FLOW_NARROW_MAX bytes, and 2 for longer ones */
    FLOW_PLACES_AT_ONCE = 5, /* that many at least find room, whatever a browser has already */
    FLOW_PLACES_RECENT_S = 10, /* what began since then may have begun at once with this one */
    FLOW_NARROW_MAX = 800      /* bytes of a sealed flow: most targets are short */
};

enum {
    NONCE_PAGES = 12, /* places of pages that are opened */
    NONCE_FRAMES = 3, /* behind them, of frames */
    NONCE_PLACES = NONCE_PAGES + NONCE_FRAMES
};

typedef struct flow_place {
    bool taken;
    int64_t since_s; /* when its flow began; of what no edge wrote 0 */
} flow_place_t;

/* The place of another flow; turn is one more for each request of a browser. Of those that are
 * taken the oldest make room for a page that is opened. What is framed may be a stranger's: it has
 * few places, and gets none that is taken. -1: there is none. */
int flow_place(const flow_place_t places[FLOW_PLACES], bool is_long, bool is_framed, int64_t now_s,
               uint64_t turn);

/* The place of the nonce of a browser that has none yet, else it keeps the one that it has. What is
 * framed may be a stranger's, and takes no page's. */
int nonce_place(bool is_framed, uint64_t turn);
