/* Where an address is, and whose network, by MaxMind DBs that the operator gives: one of cities or
 * countries, one of autonomous systems. Without them, and for addresses that they do not know,
 * nothing is said. A file may be replaced at any time and in any way: it is read whole into memory,
 * once two looks in a row found it unchanged, so a file that is being written is never looked up
 * by, and the last good one stays while a new one cannot be read. No globals; any thread may call
 * any of these at any time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    PLACE_LOOK_MS = 10000,    /* between two looks at the files */
    PLACE_FILE_MAX = 1 << 30, /* bytes of a file */
    PLACE_NETWORK_MAX = 256   /* bytes of a network's name, with its end */
};

typedef struct place_bases place_bases_t;

typedef struct place {
    char country_code[3]; /* ISO 3166-1 alpha-2; "": not known */
    bool has_point;
    double latitude, longitude; /* degrees */
    bool has_radius;
    uint32_t radius_km;                   /* how far off that may be */
    uint32_t as_number;                   /* 0: not known */
    char organization[PLACE_NETWORK_MAX]; /* of that network, UTF-8; "": not known */
} place_t;

/* Databases at these paths; "": none. They are read by the first place_bases_look. Never fails. */
place_bases_t *place_bases_new(const char *cities, const char *networks);

/* NULL is fine. Nobody may call the others any more. */
void place_bases_destroy(place_bases_t **self_p);

/* Look whether the files have been replaced, unless somebody did within PLACE_LOOK_MS (monotonic
 * ms). Reads a new one, which takes some 100 ms; says in the log what was read and, once, what
 * cannot be. Never waits for another thread's look. */
void place_bases_look(place_bases_t *self, int64_t now_ms);

/* Which of the two paths is set, while no database has been read from it: that of a wrong setting,
 * once the first look is over, which said in the log why. Borrowed; NULL: neither. */
const char *place_bases_unread(place_bases_t *self);

/* What is known of the address, of IPv4 or IPv6 (an IPv6 address that stands for one of IPv4 is
 * that). self NULL: nothing. */
void place_find(place_bases_t *self, const struct sockaddr *address, place_t *ret_place);
