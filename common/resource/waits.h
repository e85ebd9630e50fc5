/* Requests whose verb waits without a worker: for the answer to an HTTP request (common/out), for
 * that of another service of the bus (neighbour.h), or for a while. The verb returns VERB_WAITS;
 * the reactor keeps the request and what the verb left with it, and when that has come hands both
 * to a worker, which runs the verb again. Neither a worker nor a database connection is held
 * meanwhile.
 *
 * Bounded in number and bytes: of everybody, of an owner, the account for whose sake the verb
 * waits, and of a place of the owner's. HTTP requests and questions are two kinds with bounds of
 * their own, so a server that hangs costs no question; a place is an account's server (origin of
 * the URL), or the verb of its questions, so it costs the account's other servers nothing either.
 * Of the requests that are made at once at a server each URL has a portion: one that hangs leaves
 * some for the others, which may be other providers.
 * No sockets and no clock in here; used by the reactor's thread, but for a wait that a worker
 * has. */
#pragma once

#include "common/bus/bus.h"
#include "common/bus/flight.h"
#include "common/out/outbound.h"
#include "common/resource/silences.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What a handler returns after crud_fetch or crud_pause: no answer yet. No fault has this
 * number. */
#define VERB_WAITS (-2000000)

/* How much may wait at once. Each wait counts for WAITS_LEAST_BYTES at least, which is more than a
 * sign-in holds whose provider is in order: it finds its room when it first waits, and later is
 * not refused. Answers that no worker has taken yet are beside that: beyond WAITS_ANSWERS_BYTES no
 * further request is made. */
enum {
    WAITS_ALL = 2048, /* HTTP requests, and pauses */
    WAITS_OWN = 512,
    WAITS_PLACE = 384,
    WAITS_LEAST_BYTES = 64 << 10,
    WAITS_ALL_BYTES = 128 << 20,
    WAITS_OWN_BYTES = 32 << 20,
    WAITS_PLACE_BYTES = 24 << 20,
    WAITS_ANSWERS_BYTES = 32 << 20,
    WAITS_ASKED_ALL = 512, /* questions */
    WAITS_ASKED_OWN = 256,
    WAITS_ASKED_PLACE = 128,
    WAITS_ASKED_ALL_BYTES = 64 << 20,
    WAITS_ASKED_OWN_BYTES = 32 << 20,
    WAITS_ASKED_PLACE_BYTES = 16 << 20,
    WAITS_ASKING = 256, /* questions under way, of all, of an owner, and of a place */
    WAITS_ASKING_OWN = 64,
    WAITS_ASKING_PLACE = 48,
    WAITS_URL_PERCENT = 400, /* of a portion: of the 12 requests at a server one URL alone has 7 */
    WAITS_URL_LEAST = 4      /* of fewer requests there are no portions */
};

typedef enum wait_kind { WAIT_FETCHES, WAIT_ASKS, WAIT_KINDS } wait_kind_t;

/* Of the deadline, for the verb after the answer has come. */
enum { WAIT_ANSWER_MS = 250 };

enum {
    WAIT_OWNER_SIZE = 64,
    WAIT_TURN_SIZE = 256,
    WAIT_PLACE_SIZE = SILENCE_PLACE_SIZE,
    WAIT_TARGET_SIZE = 128,
    WAIT_WHY_SIZE = 416
};

/* Headers of an answer that verbs read. */
typedef enum wait_header {
    WAIT_RETRY_AFTER,
    WAIT_LINK,
    WAIT_CACHE_CONTROL,
    WAIT_CONTENT_TYPE,
    WAIT_HEADERS
} wait_header_t;

/* What came of an HTTP request, or of a question to another service. */
typedef struct wait_answer {
    outbound_end_t end;
    unsigned status;
    char *body; /* of body_bytes, and a NUL after them; NULL: none */
    size_t body_bytes;
    char *headers[WAIT_HEADERS]; /* NULL: the answer has none of that name */
    char why[WAIT_WHY_SIZE];     /* reason of an end, for logs; may hold the peer's bytes */
    int code;     /* of a question: 0, or a code of proto/errors.def, whose reason is in why;
                   * ERR_MAINTENANCE: nobody answered */
    json_t *said; /* of a question that was answered 0: the body */
} wait_answer_t;

typedef struct wait wait_t;
struct wait {
    char owner[WAIT_OWNER_SIZE];
    outbound_request_t fetch; /* owns its texts; url NULL: it pauses */
    unsigned least_ms;        /* with less time for the answer it is not made */
    char verb[64];            /* of another service, which it asks; "": it does not */
    json_t *question;         /* the body of that */
    int64_t ask_until_ms;     /* monotonic */
    int64_t pause_ms;         /* monotonic: the end of the pause, as the worker says it */
    bool goes_on;             /* the pause is one between two parts of work that is begun */
    wait_answer_t answer;
    bool answered; /* answer is there, until the verb waits again */
    void *state;   /* the verb's, with what frees it; also when the verb is never resumed */
    void (*free_state)(void **state_p);

    /* The request; set by service_worker.c. */
    request_t request;
    json_t *base;
    zframe_t *identity;
    int64_t start_us;
    size_t bytes;       /* of its frames as they came */
    size_t state_bytes; /* of state, as the verb says */
    bool begun;         /* the request is in here */
    bool waits;         /* its verb waits: else it has ended */

    /* The reactor's. */
    char key[FLIGHT_KEY_SIZE], holder[FLIGHT_ACCOUNT_SIZE], turn[WAIT_TURN_SIZE];
    int lane;
    bool admitted;
    wait_kind_t kind;              /* what it counts as */
    char place[WAIT_PLACE_SIZE];   /* the owner, a space, and origin or verb; the owner alone */
    char target[WAIT_TARGET_SIZE]; /* the owner, a space, and a hash of the URL; "": it has none */
    char path[WAIT_TARGET_SIZE];   /* the same of the URL up to its query */
    bool flying;                   /* its request is made, or its question asked */
    bool reached;                  /* its server could be connected to */
    const wait_t *leader;          /* whose request is the same, and is made for both; NULL: none */
    size_t counted;                /* bytes that it counts for */
    size_t answer_counted;         /* the same of an answer that no worker has taken */
    int64_t until_ms;              /* pause_ms, while the reactor has it; 0: it does not pause */
    void *service;                 /* for the callback of its request */
    outbound_call_t *call;
    wait_t *previous, *next; /* of all that are admitted */
};

/* ---- a wait ---- */

/* Make one, of nobody. */
wait_t *wait_new(void);
/* Wipe and free all of it, the verb's state too. */
void wait_free(wait_t **self_p);

/* Take over copies of a request, in place of what it waited for before. 0 | -EINVAL: its owner has
 * no name, or too long a one. */
int wait_fetch(wait_t *self, const outbound_request_t *request);
/* Ask another service instead; body is taken over in any case. Results as above. */
int wait_ask(wait_t *self, const char *owner, const char *verb, json_t *body, int64_t until_ms);
/* Wait until then instead. owner: for whose sake. Results as above. */
int wait_pause(wait_t *self, const char *owner, int64_t until_ms);
/* The same between two parts of work: what is begun is not refused for room. */
int wait_go_on(wait_t *self, const char *owner, int64_t until_ms);

/* Time for its answer, before what the verb needs of the deadline. */
int64_t wait_left_ms(const wait_t *self, int64_t now_ms);

/* Shorten its request's timeout, so that the answer comes before the deadline. False: there is less
 * time than the request is worth. */
bool wait_shorten(wait_t *self, int64_t now_ms);

/* Note what came; copies all. header: outbound_header, as a parameter so that services without a
 * way out do without libcurl. */
void wait_take_answer(wait_t *self, const outbound_answer_t *answer,
                      const char *(*header)(const outbound_answer_t *answer, const char *name));
/* Note what another service answered; body, which may be NULL, is taken over. */
void wait_take_said(wait_t *self, int code, const char *why, json_t *body);
/* Note that the request was not made. */
void wait_take_end(wait_t *self, outbound_end_t end, const char *why);

/* ---- all of them ---- */

typedef struct waits waits_t;

/* At most so many requests are made at once, in all and of one owner; three quarters of the latter
 * at one server, of which its URLs, up to their queries, have portions. */
waits_t *waits_new(unsigned calls, unsigned calls_of_one);
/* Free also all waits that are admitted. */
void waits_destroy(waits_t **self_p);

/* May it wait? One that waits again is let in, unless it holds more than it was let in with, and
 * there is no room for that; one that goes on with its work is let in always. 0: it is this
 * registry's | -EDQUOT: its owner or its place has as many as it may have, or as many bytes |
 * -EAGAIN: everybody together has. */
int waits_admit(waits_t *self, wait_t *wait);

/* Put it into the queue of its kind. Accounts take turns, and within one its URLs and verbs: with
 * however many of them it delays another account by one request. */
void waits_queue(waits_t *self, wait_t *wait);
/* The next one whose request may be made now; NULL: none. Its place is taken until
 * waits_fetched. */
wait_t *waits_next(waits_t *self);
void waits_fetched(waits_t *self, wait_t *wait);
/* It is not asked now: a moment ago its server could not be connected to, or did not answer at this
 * very URL. Other URLs of a server are not silent by that: one server may be many providers. */
bool waits_is_silent(waits_t *self, const wait_t *wait, int64_t now_ms);
/* What is known of its server and URL, by what came of its request; NULL: that was not made. */
void waits_note_end(waits_t *self, const wait_t *wait, const outbound_end_t *end, int64_t now_ms);

/* Is the same under way already, a GET of the same account with the same headers? Then it gives its
 * place back, and waits for the other's answer. */
bool waits_follow(waits_t *self, wait_t *wait);
/* One that waited for this one's answer, and does no more; NULL: none. *ret_shares: that answer is
 * its own, too. Else it has to be made by itself: there was less time for this one than for it, or
 * there is no room for more answers. */
wait_t *waits_follower(waits_t *self, const wait_t *wait, const outbound_answer_t *answer,
                       bool *ret_shares);
/* One that has waited for another's answer as long as it can, and does no more; NULL: none. */
wait_t *waits_late_follower(waits_t *self, int64_t now_ms);
/* Its answer is there, after waits_fetched: it counts until it waits again or is forgotten. */
void waits_answered(waits_t *self, wait_t *wait);

/* The next one whose pause is over; it is in a worker's hands then. NULL: none. */
wait_t *waits_due(waits_t *self, int64_t now_ms);

/* Any that is admitted; NULL: there is none. */
wait_t *waits_first(const waits_t *self);
/* Free one that is in no queue. */
void waits_forget(waits_t *self, wait_t **wait_p);

/* How many are admitted. */
size_t waits_count(const waits_t *self);
