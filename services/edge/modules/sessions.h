/* Sessions of signed-in people, as identity told them last: a cache in memory that all workers of
 * an edge share. No nginx in here, and no clock: times are given.
 *
 * There is no lock, so none that a dead worker could hold. An entry is sealed with a keyed check of
 * all that it says: one that was half written, or written by two workers at once, is not there, and
 * identity is asked again. A place that is needed is taken from the session of its set that was
 * idle for longest; nobody is logged out by that, since what is not here is asked for.
 *
 * An entry has the generation that its session had before identity was asked. sessions_end makes
 * another one, in one step for all workers: what somebody was told before that, and writes later,
 * is never found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SESSION_HASH_BYTES = 32, /* SHA-256 of the cookie's value */
    SESSION_BOUND_BYTES =
        16, /* of what it is bound to: its route and host, and the rules that admitted it */
    SESSION_SECRET_BYTES = 16,
    SESSIONS_HEAD_BYTES = 4096, /* of a table's memory, beside its places */
    SESSION_CELLS_MAX = 8,      /* of one session */
    SESSION_CELL_BYTES = 240,
    SESSION_HEAD_BYTES = 116,
    SESSION_TEXT_MAX = SESSION_CELLS_MAX * SESSION_CELL_BYTES - SESSION_HEAD_BYTES
};

typedef enum session_text {
    SESSION_USER,        /* id of the API's user */
    SESSION_PROVIDER_ID, /* what the provider calls the user */
    SESSION_NAME,
    SESSION_EMAIL, /* which the provider vouches for */
    SESSION_EMAIL_UNVERIFIED,
    SESSION_GROUPS, /* each with a NUL behind it */
    SESSION_TEXTS
} session_text_t;

/* What an edge knows of a session. Times are milliseconds since 1970, but for asked_ms. */
typedef struct session {
    unsigned char hash[SESSION_HASH_BYTES];
    unsigned char bound[SESSION_BOUND_BYTES];
    int64_t expires_ms;     /* not admitted from then on */
    int64_t due_ms;         /* to be asked for from then on; 0: never */
    int64_t asked_ms;       /* before identity was asked, by a clock that never goes back and that
                               all workers share */
    int64_t last_active_ms; /* whichever worker saw it last */
    uint32_t inactivity_s;  /* 0: off */
    uint32_t generation;    /* before identity was asked: sessions_generation */
    uint16_t lens[SESSION_TEXTS];
    uint32_t place;              /* of sessions_find, for sessions_touch */
    char text[SESSION_TEXT_MAX]; /* all of them, one behind the other */
} session_t;

typedef struct sessions sessions_t;

/* Make an empty table, 256 bytes a place, of SESSIONS_HEAD_BYTES and that many bytes, which are all
 * zero and begin with a page, with a secret of SESSION_SECRET_BYTES. NULL: less than 64 KiB. */
sessions_t *sessions_init(void *memory, size_t bytes, const unsigned char *secret);

/* Read before identity is asked, and put into the session's generation. */
uint32_t sessions_generation(const sessions_t *self, const unsigned char *hash);

/* The session is looked for soon: the memory where it most likely is is fetched meanwhile. */
void sessions_expect(const sessions_t *self, const unsigned char *hash);

/* Find a session. False: it is not here. Whether it may be admitted is the caller's question. */
bool sessions_find(const sessions_t *self, const unsigned char *hash, session_t *out);

/* Keep what identity said. False: it is not kept, since it was ended meanwhile or its texts are
 * longer than SESSION_TEXT_MAX. */
bool sessions_put(sessions_t *self, const session_t *session);

/* The session is over: when this returns no worker finds it any more, whatever they were told
 * before. */
void sessions_end(sessions_t *self, const unsigned char *hash);

/* The session, as sessions_find returned it, was active now. True: nobody has told identity so
 * for tell_ms, and the caller is to do it. */
bool sessions_touch(sessions_t *self, const session_t *session, int64_t now_ms, int64_t tell_ms);

/* Places that are taken, and all of them. */
size_t sessions_count(const sessions_t *self);
size_t sessions_places(const sessions_t *self);

/* One of the texts; *len without NUL. Borrowed: it is the session's. */
const char *session_text(const session_t *session, session_text_t which, size_t *len);

/* Set all texts, in their order. False: together they are longer than SESSION_TEXT_MAX. */
bool session_set_texts(session_t *session, const char *const *texts, const size_t *lens);
