/* Names of backends and their addresses: which names there are, when each is asked for, and what
 * an answer changes. An address belongs to the name, not to the backend that has it: it outlives
 * changes of backends and whole tables, and stays until there is another answer, so a name server
 * that fails takes no address away. Names are each account's own, and all backends of an account
 * that have the same name share it. A name is asked for when it comes, and again RESOLVE_REFRESH_MS
 * after its last answer, whatever that was. Single-threaded; without sockets, clock and nginx:
 * queries go out by a port, answers come in, and now_ms is any clock that never goes back. */
#pragma once

#include "services/edge/control/resolve_turns.h"
#include "services/edge/control/resolve_waits.h"

#include <sys/socket.h>

enum {
    RESOLVE_REFRESH_MS = 30000, /* from an answer to the next query for the name */
    RESOLVE_TICK_MS = 1000,     /* resolve_tick wants to be called so often */
    RESOLVE_TICK_NAMES = 5000,  /* names that one tick begins to refresh, at most */
    RESOLVE_STUCK_MS = 1000     /* an account with a query that takes longer delays no change */
};

typedef struct resolve resolve_t;
typedef struct resolve_name resolve_name_t;

/* What the resolver needs done. */
typedef struct resolve_ports {
    /* Send a query; its answer comes with its number. host is valid during the call only. False: it
     * did not go, and is sent again by the next tick. */
    bool (*send)(void *context, uint64_t number, const char *host);

    /* The first answer without an address since the name came or had one. account_id "": none. */
    void (*unresolved)(void *context, const char *account_id, const char *host, bool has_address);
} resolve_ports_t;

/* ports and context are borrowed and must live as long as the resolver. It sends nothing before
 * resolve_start. Never NULL (table/slab.h). */
resolve_t *resolve_new(const resolve_ports_t *ports, void *context);

/* Free it with all of its names; waits stay their owners'. NULL: nothing. */
void resolve_destroy(resolve_t **self_p);

/* Queries may be sent from now on; the names that came before are asked for at once. */
void resolve_start(resolve_t *self, int64_t now_ms);

/* No query is sent from now on. Names and addresses stay. */
void resolve_stop(resolve_t *self);

/* The name of a backend, made if the account has none like it, and held until resolve_release.
 * account_id "": no account's. wait: if not NULL, it waits for the name's first answer, unless the
 * account has held up others for too long. Both texts are copied. */
resolve_name_t *resolve_hold(resolve_t *self, const char *account_id, const char *host,
                             resolve_wait_t *wait, int64_t now_ms);

/* A backend that held the name is gone; with the last one the name goes. */
void resolve_release(resolve_t *self, resolve_name_t *name, int64_t now_ms);

/* The name's last good answer, borrowed until the next call of this resolver: its port means
 * nothing. *ret_address is unset and 0 returned while it has none. */
socklen_t resolve_address(const resolve_name_t *name, const struct sockaddr_storage **ret_address);

/* An answer: the query's number in decimal, and a sockaddr_in or sockaddr_in6 as in memory; other
 * bytes, or none, mean that the name has no address now. An answer to no query under way is
 * ignored. */
void resolve_answer(resolve_t *self, const void *number, size_t number_len, const void *address,
                    size_t address_len, int64_t now_ms);

/* After a batch of answers: send the queries for which there is room now. */
void resolve_ask(resolve_t *self, int64_t now_ms);

/* Whom queries were sent to is gone, another one is there: send those under way to it. */
void resolve_resend(resolve_t *self, int64_t now_ms);

/* Every RESOLVE_TICK_MS. */
void resolve_tick(resolve_t *self, int64_t now_ms);

/* Names of accounts that have held up others for too long are waited for no more. */
void resolve_release_spent(resolve_t *self, int64_t now_ms);

/* Names that had no answer at all yet. */
size_t resolve_untried(const resolve_t *self);

/* Accounts that are known: those with names, and those whose credit is not paid back. */
size_t resolve_accounts(const resolve_t *self);
