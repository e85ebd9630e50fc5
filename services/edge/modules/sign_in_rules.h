/* Rules of sign-in that need neither nginx nor identity: what a request without a session is
 * answered, which paths are the edge's own, whether a session may be admitted, and how an upstream
 * is told who somebody is. Texts are not ended by a NUL. */
#pragma once

#include "services/edge/modules/sessions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sign_in_text {
    const char *at; /* NULL: it is not there */
    size_t len;
} sign_in_text_t;

/* What of a request says whether a person waits for a page. */
typedef struct sign_in_asked {
    bool get;                              /* GET or HEAD */
    bool post;                             /* POST; only a sign-out may be one */
    bool upgrade;                          /* a handshake of a WebSocket, or for anything else */
    sign_in_text_t fetch_mode, fetch_dest; /* Sec-Fetch-Mode and -Dest (Fetch Metadata) */
    sign_in_text_t accept;
} sign_in_asked_t;

/* Is it a navigation, so that it may be sent away to sign in? Else it is answered 401: whoever sent
 * it would take the provider's page for the answer. */
bool sign_in_navigates(const sign_in_asked_t *asked);

/* Is it of a frame, as far as the browser says? */
bool sign_in_is_framed(const sign_in_asked_t *asked);

/* May it begin a sign-in, where its path asks for one? Not an image, a script or a style, where the
 * browser says so: any page can have those fetched, as many as it likes. */
bool sign_in_may_begin(const sign_in_asked_t *asked);

/* May a sign-out at the route end the session at the provider too? Only a navigation that another
 * site did not begin (site: Sec-Fetch-Site, also of another host below the same domain): whoever
 * links here would else sign people out of all that they use. */
bool sign_in_may_leave(const sign_in_asked_t *asked, sign_in_text_t site);

/* Where a request for a sign-out comes from. */
typedef struct sign_out_from {
    sign_in_text_t site;    /* Sec-Fetch-Site */
    sign_in_text_t origin;  /* Origin */
    sign_in_text_t purpose; /* Sec-Purpose, or what browsers sent before it had that name */
    sign_in_text_t host;    /* the request's own, with the port that browsers show */
} sign_out_from_t;

/* Does somebody ask for a sign-out at the route? Not an image, a frame or a script of another host,
 * be it below the same domain, whose requests bring the cookie along, and not a browser that opens
 * what may be clicked. Of another host it takes a page that is opened, of this one a script may ask
 * as well. Browsers without Sec-Fetch headers: a page, or a POST that no other origin sends. */
bool sign_out_is_asked(const sign_in_asked_t *asked, const sign_out_from_t *from);
/* Does a POST come from another site, so that no cookie which is Lax comes along? */
bool sign_out_is_blind(const sign_in_asked_t *asked, const sign_out_from_t *from);

typedef enum sign_in_path {
    SIGN_IN_UPSTREAM, /* not one of the edge's */
    SIGN_IN_BEGIN,    /* <prefix>/auth/authn */
    SIGN_IN_DONE,     /* <prefix>/auth/done */
    SIGN_IN_LOGOUT,   /* <prefix>/auth/logout */
    SIGN_IN_NOWHERE   /* <prefix>/auth/ and anything else */
} sign_in_path_t;

/* Whose a normalised path is, on a route that has prefix as its path: a '/' at its end counts for
 * nothing. */
sign_in_path_t sign_in_path(const char *path, size_t len, const char *prefix, size_t prefix_len);

typedef enum sign_in_verdict {
    SIGN_IN_ADMIT,
    SIGN_IN_ASK,       /* identity, before it is admitted */
    SIGN_IN_ASK_RULES, /* the same, which has to look at the rules anew */
    SIGN_IN_OVER       /* it has expired */
} sign_in_verdict_t;

/* May what is cached be admitted? Who was idle here for too long may have been active at another
 * edge: identity knows. bound is what the route asks for now; in_touch: this worker knows
 * all that has ended since trusted_ms (as session_t.asked_ms). */
sign_in_verdict_t sign_in_judge(const session_t *session, const unsigned char *bound,
                                int64_t now_ms, bool in_touch, int64_t trusted_ms);

/* The same where identity cannot be asked: is it trusted until it can be? last_ms is when it was
 * last known to be good, now_clock_ms the same clock now. */
bool sign_in_is_trusted(const session_t *session, const unsigned char *bound, int64_t now_ms,
                        int64_t last_ms, int64_t now_clock_ms, int64_t trust_ms);

/* Is a request that goes on to be ended, since identity could not be asked for its session for too
 * long? doubted_ms is since when it is to be asked, by the clock of now_clock_ms; 0: it is not. */
bool sign_in_is_doubted_long(int64_t doubted_ms, int64_t now_clock_ms, int64_t trust_ms);

/* For how long a request may go on while identity cannot be asked for its session. is_same: the
 * rules are those that admitted it; others may not admit it, so that it has a few seconds, and none
 * where identity is away (is_there false). */
int64_t sign_in_trust_ms(bool is_same, bool is_there, int64_t trust_ms);

/* A time of identity's, whose clock is ahead of this machine's by that much, by this machine's
 * clock; 0, which is never, stays so. */
int64_t sign_in_local_time(int64_t time_ms, int64_t ahead_ms);

/* The other way round: a time of this machine's by identity's clock. */
int64_t sign_in_identity_time(int64_t time_ms, int64_t ahead_ms);

/* Is a text the value of a header as it is? Most names and addresses are. A list never is. */
bool sign_in_is_plain(const char *text, size_t len);

/* The same of all texts of a session but its groups, which are the last. */
bool sign_in_is_all_plain(const session_t *session);

/* Write a text as the value of a header: bytes that it may not have, and '%', percent-encoded. Of a
 * list each part has a NUL behind it, which becomes a ',' between two. Returns the bytes written,
 * of at most 3 * len. */
size_t sign_in_value(char *out, const char *text, size_t len, bool is_list);

/* Is it a path on this host, to come back to after a sign-in: "/", not followed by '/' or '\',
 * without control characters? */
bool sign_in_is_target(const char *text, size_t len);
