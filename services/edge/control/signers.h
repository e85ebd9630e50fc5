/* Keys of webhook signers, by the URL of their certificates: those that a worker has, those that
 * are being fetched, and, for a short time, those that could not be had. A URL is fetched once
 * however many requests wait for it. An account has few fetches under way at once, and it and a
 * client, whatever the accounts, more than one only while twice as many as it then has are left,
 * and the network above the client while as many are. All that is kept is bounded: strangers write
 * the URLs. A URL that brought no key takes no place of one that did. Single-threaded; without
 * sockets, clock and nginx: now_ms is any clock that never goes back, now_s the time of day. */
#pragma once

#include "common/codec/signer.h"

#include <openssl/evp.h>

enum {
    SIGNERS_KEYS_MAX = 64,       /* the one that was used the longest ago makes room */
    SIGNERS_FETCHES_MAX = 16,    /* under way at once, of all accounts */
    SIGNERS_ACCOUNT_MAX = 4,     /* and of one */
    SIGNERS_LEFT = 2,            /* times what one has are left to others, when it has several */
    SIGNERS_NETWORK = 2,         /* times a client's percent: that of the network above it */
    SIGNERS_REMEMBERED_MAX = 64, /* URLs that are being fetched, or brought no key lately */
    SIGNERS_REFUSED_MS = 30000,  /* a URL whose certificate is not good is not fetched again */
    SIGNERS_LATER_MS = 3000,     /* and one that could not be fetched is not tried again */
    SIGNERS_WAIT_MS = 15000,     /* an answer that takes longer does not come */
    /* from then on a key is fetched again, while it is used; it stays for its time also where
     * nothing good lies there now: signers' old certificates go before their last messages came */
    SIGNERS_FRESH_MS = 24 * 3600 * 1000,
    SIGNERS_STALE_MS = 7 * SIGNERS_FRESH_MS /* from then on, or when its certificate ends, it is
                                               used no more */
};

_Static_assert(SIGNERS_REMEMBERED_MAX > SIGNERS_FETCHES_MAX, "a new URL always finds a place");

typedef struct signers signers_t;

/* Somebody who waits for a URL's key; all zero: nobody does. */
typedef struct signers_waiter {
    struct signers_waiter *before, *after;
    struct signers_fetch *fetch;
    void (*wake)(struct signers_waiter *self);
} signers_waiter_t;

typedef struct signers_ports {
    /* Send a question; its answer comes with its number. False: it did not go. */
    bool (*ask)(void *context, const signer_ask_t *ask);
} signers_ports_t;

typedef enum signers_state {
    SIGNERS_KEY,     /* here it is */
    SIGNERS_WAIT,    /* it is being fetched: the waiter is woken when that is over */
    SIGNERS_REFUSED, /* what lies there is no certificate that may sign */
    SIGNERS_LATER    /* it cannot be had at the moment */
} signers_state_t;

/* Who wants a key. */
typedef struct signers_who {
    const char *account;
    uint32_t client;  /* a hash of who sent the message, whatever the account; 0: one of many */
    uint32_t percent; /* 100; more: a client may have so much more */
} signers_who_t;

/* ports and context are borrowed. NULL: no memory. */
signers_t *signers_new(const signers_ports_t *ports, void *context);
void signers_destroy(signers_t **self_p); /* nobody may wait */

/* The key of a URL that signer_url_read takes. *ret_key is borrowed until the next call of these
 * functions. waiter: of nobody yet; it must live until it was woken or has left. */
signers_state_t signers_look(signers_t *self, const signers_who_t *who, const char *url,
                             int64_t now_ms, int64_t now_s, signers_waiter_t *waiter,
                             EVP_PKEY **ret_key);

/* The waiter waits no more; it need not have waited. */
void signers_leave(signers_waiter_t *waiter);

/* An answer, which wakes those who wait for it. One that nobody asked for is ignored. */
void signers_take(signers_t *self, const signer_told_t *told, int64_t now_ms);
