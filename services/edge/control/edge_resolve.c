/* Names of backends: the helper's threads ask the system's resolver (hosts file, DNS, whatever
 * the machine uses), and no request ever waits for it. An address belongs to the name, not to
 * the backend that has it: it outlives changes of backends and whole tables, and stays until
 * there is another answer. Names are each account's own. A name that nobody answers for can take
 * a thread twenty seconds: an account has only a few threads at once, in turn with the others,
 * so that its dead names delay nobody else's. */
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/table/table.h"
#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_timer.h"
#include "services/edge/table/slab.h"
#include "common/base/invariant.h"

#include <poll.h>

enum {
    REFRESH_MS = 30000,    /* after the last answer */
    TICK_MS = 1000,
    TICK_NAMES = 5000,     /* asked again in one turn, at most */
    ACCOUNT_MAX = 4,       /* names of one account that are asked for at once */
    AGAIN_MAX = 2,         /* and of those, ones that were asked before */
    /* from here on each account has one, and what is only refreshed waits */
    CROWD = EDGE_RESOLVERS / 2,
    STUCK_MS = 1000,       /* an account whose names take longer holds up no acknowledgement */
    CREDIT_MS = 500,       /* for so long may an account's names hold up acknowledgements */
    CREDIT_EVERY = 50,     /* ms, after which the account has one of them back */
    QUICK_MS = 50          /* of each time that is not counted: an answer takes that */
};

typedef struct name     name_t;
typedef struct account  account_t;

/* Names in the order in which they came; in and out at the ends, or out of the middle. */
typedef struct {
    name_t  *first, *last;
} list_t;

typedef struct {
    name_t  *before, *after;
} links_t;

/* An acknowledgement that waits for names. */
struct edge_wait {
    ngx_uint_t  pending, refs;
};

/* A name that an acknowledgement waits for. */
typedef struct waiter {
    struct waiter  *next;            /* of the name */
    struct waiter  *before, *after;  /* of all that wait */
    account_t      *account;
    edge_wait_t    *wait;            /* NULL: it does not wait any more */
} waiter_t;

typedef enum { IDLE, QUEUED, ASKED } state_t;

struct name {
    links_t                   links;      /* in its account's queue, or among those that rest */
    account_t                *account;
    char                     *host;
    /* backends, in whatever table, and requests that hold them */
    ngx_uint_t                users;
    state_t                   state;
    ngx_uint_t                tried;      /* it was answered for, whatever the answer */
    ngx_uint_t                dead;       /* and there was none: said once in the log */
    ngx_msec_t                answered;
    waiter_t                 *waiters;
    struct sockaddr_storage   address;    /* its port is each backend's own */
    socklen_t                 address_len;   /* 0: none yet */
};

/* Of each kind: names never tried, names that are tried again. */
enum { FRESH, AGAIN, KINDS };

struct account {
    char        *id;
    strmap_t    *names;               /* by host */
    list_t       queue[KINDS];
    account_t   *next[KINDS];         /* in turn */
    ngx_uint_t   in_turn[KINDS];
    ngx_uint_t   asked[KINDS];
    ngx_uint_t   waiting;             /* names that acknowledgements wait for, */
    ngx_msec_t   waiting_since;
    ngx_uint_t   spent;               /* and how long they did, less what it has back: ms */
    ngx_msec_t   spent_at;
    account_t   *next_spender;        /* of those that have no names, but have spent */
    ngx_uint_t   is_spender;
};

typedef struct {
    account_t  *first, *last;
} turn_t;

typedef struct {
    name_t      *name;     /* NULL: free */
    uint64_t     number;
    ngx_msec_t   since;
    ngx_uint_t   kind, sent;
} slot_t;

static strmap_t          *accounts;
static turn_t             turns[KINDS];
static list_t             resting;      /* whoever was answered for longest ago is first */
static slot_t             slots[EDGE_RESOLVERS];
static ngx_uint_t         asked_count, asked_again;
static uint64_t           last_number;
static ngx_uint_t         untried, started;
static edge_wait_t       *current_wait;
static waiter_t          *waiters;
static account_t         *spenders;
static link_t             helper = LINK_CLOSED;
static ngx_event_t        tick;
static void             (*on_answer)(void);


/* ---- lists ---- */

static void
list_add(list_t *list, name_t *name)
{
    name->links.before = list->last;
    name->links.after = NULL;
    *(list->last ? &list->last->links.after : &list->first) = name;
    list->last = name;
}


static void
list_remove(list_t *list, name_t *name)
{
    links_t  *links = &name->links;

    *(links->before ? &links->before->links.after : &list->first)
        = links->after;
    *(links->after ? &links->after->links.before : &list->last)
        = links->before;
}


/* ---- names ---- */

static account_t *
account_of(const char *id)
{
    size_t      len = ngx_strlen(id);
    account_t  *account;

    if (accounts == NULL) {
        accounts = strmap_new();
    }
    account = strmap_get(accounts, id, len);
    if (account == NULL) {
        account = slab_alloc(sizeof(*account));
        account->spent_at = ngx_current_msec;
        account->id = slab_alloc(len + 1);
        ngx_memcpy(account->id, id, len);
        account->names = strmap_new();
        strmap_put(accounts, id, len, account);
    }
    return account;
}


/* ---- credit ---- */

/* Acknowledgements go in their order, so a name that one of them waits for keeps everybody's
 * changes waiting. What an account may take of others' time in that way is little: with a name
 * server that always takes just as long as is waited for, it would take all of it. */
static ngx_uint_t
held_for(const account_t *account)
{
    ngx_msec_t  held = ngx_current_msec - account->waiting_since;

    return account->waiting && held > QUICK_MS ? held - QUICK_MS : 0;
}


static ngx_uint_t
spent_by(account_t *account)
{
    ngx_uint_t  back = (ngx_current_msec - account->spent_at) / CREDIT_EVERY;

    account->spent -= ngx_min(back, account->spent);
    account->spent_at += back * CREDIT_EVERY;
    return account->spent + held_for(account);
}


static void
begin_waiting(account_t *account)
{
    if (account->waiting++ == 0) {
        account->waiting_since = ngx_current_msec;
    }
}


static void
end_waiting(account_t *account)
{
    INVARIANT(account->waiting > 0);
    (void) spent_by(account);
    if (account->waiting == 1) {
        account->spent += held_for(account);
    }
    account->waiting--;
}


/* ---- the end of an account ---- */

/* Whoever comes again with another name must not come with new credit. One in the list stays in
 * it until the next tick takes it out, though it has paid back by now: the list would lead to
 * what was freed. */
static ngx_uint_t
is_still_a_spender(account_t *account)
{
    if (account->is_spender) {
        return 1;
    }
    if (spent_by(account) == 0) {
        return 0;
    }
    account->is_spender = 1;
    account->next_spender = spenders;
    spenders = account;
    return 1;
}


static void
account_free_if_unused(account_t *account)
{
    if (strmap_count(account->names) || account->in_turn[FRESH]
        || account->in_turn[AGAIN])
    {
        return;   /* in turn: it goes when that comes, see next_of */
    }
    if (is_still_a_spender(account)) {
        return;   /* see free_spenders */
    }
    strmap_del(accounts, account->id, ngx_strlen(account->id));
    strmap_destroy(&account->names);
    slab_free(account->id);
    slab_free(account);
}


static void
free_spenders(void)
{
    account_t  *account, *next, *all = spenders;

    spenders = NULL;
    for (account = all; account; account = next) {
        next = account->next_spender;
        account->is_spender = 0;
        account_free_if_unused(account);   /* or it is one again */
    }
}


/* ---- asking in turn ---- */

static ngx_uint_t
kind_of(const name_t *name)
{
    return name->tried ? AGAIN : FRESH;
}


static void
join_turn(account_t *account, ngx_uint_t kind)
{
    turn_t  *turn = &turns[kind];

    account->in_turn[kind] = 1;
    account->next[kind] = NULL;
    *(turn->last ? &turn->last->next[kind] : &turn->first) = account;
    turn->last = account;
}


static void
enqueue_name(name_t *name)
{
    ngx_uint_t  kind = kind_of(name);

    name->state = QUEUED;
    list_add(&name->account->queue[kind], name);
    if (!name->account->in_turn[kind]) {
        join_turn(name->account, kind);
    }
}


/* Nothing waits for this name any more. */
static void
release_waiter(waiter_t *waiter)
{
    if (waiter->wait == NULL) {
        return;
    }
    INVARIANT(waiter->wait->pending > 0);
    waiter->wait->pending--;
    edge_resolve_wait_drop(waiter->wait);
    waiter->wait = NULL;
    end_waiting(waiter->account);
    *(waiter->before ? &waiter->before->after : &waiters) = waiter->after;
    if (waiter->after) {
        waiter->after->before = waiter->before;
    }
}


static void
wait_done(name_t *name)
{
    waiter_t  *waiter;

    while ((waiter = name->waiters) != NULL) {
        name->waiters = waiter->next;
        release_waiter(waiter);
        slab_free(waiter);
    }
}


void
edge_resolve_release_spent(void)
{
    waiter_t  *waiter, *after;

    for (waiter = waiters; waiter; waiter = after) {
        after = waiter->after;
        if (spent_by(waiter->account) >= CREDIT_MS) {
            release_waiter(waiter);
        }
    }
}


static void
name_free(name_t *name)
{
    account_t  *account = name->account;

    if (name->state == QUEUED) {
        list_remove(&account->queue[kind_of(name)], name);
    } else {
        list_remove(&resting, name);
    }
    if (!name->tried) {
        untried--;
    }
    wait_done(name);
    strmap_del(account->names, name->host, ngx_strlen(name->host));
    slab_free(name->host);
    slab_free(name);
    account_free_if_unused(account);
}


/* With the last backend that has it. What is asked for goes when the answer comes. */
static void
forget_backend(backend_t *backend)
{
    name_t  *name = backend->name;

    INVARIANT(name->users > 0);
    if (--name->users == 0 && name->state != ASKED) {
        name_free(name);
    }
}


static name_t *
name_of(account_t *account, const char *host)
{
    size_t   len = ngx_strlen(host);
    name_t  *name = strmap_get(account->names, host, len);

    if (name) {
        return name;
    }
    name = slab_alloc(sizeof(*name));
    name->account = account;
    name->host = slab_alloc(len + 1);
    ngx_memcpy(name->host, host, len);
    strmap_put(account->names, host, len, name);
    untried++;
    enqueue_name(name);
    return name;
}


/* Its names already keep threads for long: a change is not held up by one more. */
static ngx_uint_t
is_stuck(const account_t *account)
{
    ngx_uint_t  i;

    for (i = 0; i < EDGE_RESOLVERS; i++) {
        if (slots[i].name && slots[i].name->account == account
            && ngx_current_msec - slots[i].since > STUCK_MS)
        {
            return 1;
        }
    }
    return 0;
}


/* ---- waiting ---- */

edge_wait_t *
edge_resolve_wait_new(void)
{
    edge_wait_t  *wait = slab_alloc(sizeof(*wait));

    wait->refs = 1;
    return wait;
}


void
edge_resolve_wait_drop(edge_wait_t *wait)
{
    if (wait && --wait->refs == 0) {
        slab_free(wait);
    }
}


ngx_uint_t
edge_resolve_wait_pending(const edge_wait_t *wait)
{
    return wait ? wait->pending : 0;
}


void
edge_resolve_wait_for(edge_wait_t *wait)
{
    current_wait = wait;
}


static void
wait_for(name_t *name)
{
    waiter_t  *waiter;

    if (current_wait == NULL || name->tried || is_stuck(name->account)
        || spent_by(name->account) >= CREDIT_MS)
    {
        return;
    }
    waiter = slab_alloc(sizeof(*waiter));
    waiter->wait = current_wait;
    waiter->account = name->account;
    waiter->next = name->waiters;
    name->waiters = waiter;
    waiter->after = waiters;
    if (waiters) {
        waiters->before = waiter;
    }
    waiters = waiter;
    begin_waiting(name->account);
    current_wait->pending++;
    current_wait->refs++;
}


/* ---- asking ---- */

/* What does not go now goes at the next tick; one that is lost with a helper is asked of the
 * next. */
static void
ask_name(slot_t *slot)
{
    char       number[24];
    ngx_str_t  frames[2];

    frames[0].data = (u_char *) number;
    frames[0].len = snprintf(number, sizeof(number), "%llu",
                             (unsigned long long) slot->number);
    frames[1].data = (u_char *) slot->name->host;
    frames[1].len = ngx_strlen(slot->name->host);
    slot->sent = link_send(&helper, LINK_NAME, frames, 2, MSG_DONTWAIT)
                 == NGX_OK;
}


static ngx_uint_t
may_ask(const account_t *account, ngx_uint_t kind)
{
    ngx_uint_t  all = account->asked[FRESH] + account->asked[AGAIN];

    if (asked_count >= CROWD) {
        return kind == FRESH && all == 0;
    }
    return all < ACCOUNT_MAX
           && (kind == FRESH || account->asked[AGAIN] < AGAIN_MAX);
}


static account_t *
take_turn(ngx_uint_t kind)
{
    turn_t     *turn = &turns[kind];
    account_t  *account = turn->first;

    turn->first = account->next[kind];
    if (turn->first == NULL) {
        turn->last = NULL;
    }
    account->in_turn[kind] = 0;
    return account;
}


/* Of the accounts in turn, the first that may ask. Those that may not have asked already, so
 * they are as few as there are slots. */
static name_t *
next_of(ngx_uint_t kind)
{
    name_t      *name = NULL;
    account_t   *account;
    ngx_uint_t   looked;

    for (looked = 0; name == NULL && looked <= 2 * EDGE_RESOLVERS
                     && turns[kind].first; looked++)
    {
        account = take_turn(kind);
        if (account->queue[kind].first && may_ask(account, kind)) {
            name = account->queue[kind].first;
            list_remove(&account->queue[kind], name);
            name->state = ASKED;
        }
        if (account->queue[kind].first) {
            join_turn(account, kind);
        } else {
            account_free_if_unused(account);
        }
    }
    return name;
}


static void
ask_next(void)
{
    name_t      *name;
    ngx_uint_t   i, kind;

    for (i = 0; started && i < EDGE_RESOLVERS; i++) {
        if (slots[i].name) {
            continue;
        }
        kind = FRESH;
        name = next_of(FRESH);
        if (name == NULL && asked_again < CROWD) {
            kind = AGAIN;
            name = next_of(AGAIN);
        }
        if (name == NULL) {
            return;
        }
        slots[i].name = name;
        slots[i].kind = kind;
        slots[i].number = ++last_number;
        slots[i].since = ngx_current_msec;
        name->account->asked[kind]++;
        asked_count++;
        asked_again += kind == AGAIN;
        ask_name(&slots[i]);
    }
}


static slot_t *
slot_of(const ngx_str_t *number)
{
    char         text[24];
    uint64_t     value;
    ngx_uint_t   i;

    ngx_cpystrn((u_char *) text, number->data,
                ngx_min(number->len + 1, sizeof(text)));
    value = strtoull(text, NULL, 10);
    for (i = 0; i < EDGE_RESOLVERS; i++) {
        if (slots[i].name && slots[i].number == value) {
            return &slots[i];
        }
    }
    return NULL;
}


/* The one place where a name gets its address. An answer without one leaves what was there. */
static void
store_address(name_t *name, const ngx_str_t *address)
{
    if (address->len > 0 && address->len <= sizeof(name->address)) {
        ngx_memcpy(&name->address, address->data, address->len);
        name->address_len = address->len;
        name->dead = 0;
    } else if (!name->dead) {
        name->dead = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: cannot resolve \"%s\"%s%s%s", name->host,
                      *name->account->id ? " of account " : "",
                      name->account->id,
                      name->address_len ? ": the address that it had stays"
                                        : "");
    }
}


static void
finish_slot(slot_t *slot, const ngx_str_t *address)
{
    name_t  *name = slot->name;

    INVARIANT(asked_count > 0 && name->account->asked[slot->kind] > 0);
    slot->name = NULL;
    name->account->asked[slot->kind]--;
    asked_count--;
    asked_again -= slot->kind == AGAIN;
    store_address(name, address);
    if (!name->tried) {
        name->tried = 1;
        untried--;
    }
    wait_done(name);
    name->state = IDLE;
    name->answered = ngx_current_msec;
    list_add(&resting, name);
    if (name->users == 0) {
        name_free(name);
    }
}


static void
collect_answers(void)
{
    slot_t          *slot;
    ngx_int_t        rc;
    link_message_t   message;

    while ((rc = link_receive(&helper, &message, MSG_DONTWAIT)) == NGX_OK) {
        slot = message.n == 2 ? slot_of(&message.frames[0]) : NULL;
        if (slot) {
            finish_slot(slot, &message.frames[1]);
        }
    }
    if (rc == NGX_ERROR) {
        link_close(&helper);   /* until edge_resolve_connect */
    }
    ask_next();
}


static void
on_readable(ngx_event_t *ev)
{
    (void) ev;
    collect_answers();
    if (on_answer) {
        on_answer();
    }
}


/* In the master, and before the worker's own start, it is only written down. */
void
edge_resolve_add(backend_t *backend)
{
    name_t  *name = name_of(account_of(backend->account_id
                                       ? backend->account_id : ""),
                            backend->host);

    name->users++;
    backend->name = name;
    backend->forget_name = forget_backend;
    wait_for(name);
    ask_next();
}


socklen_t
edge_resolve_address(const backend_t *backend, struct sockaddr_storage *out)
{
    socklen_t      len = backend->address_len;
    const name_t  *name = backend->name;

    ngx_memcpy(out, &backend->address, len);
    if (name) {
        len = name->address_len;
        ngx_memcpy(out, &name->address, len);
    }
    if (len) {
        ngx_inet_set_port((struct sockaddr *) out, backend->port);
    }
    return len;
}


static void
on_tick(ngx_event_t *ev)
{
    name_t      *name;
    ngx_uint_t   i;

    for (i = 0; i < TICK_NAMES && (name = resting.first) != NULL
                && ngx_current_msec - name->answered >= REFRESH_MS; i++)
    {
        list_remove(&resting, name);
        enqueue_name(name);
    }
    for (i = 0; i < EDGE_RESOLVERS; i++) {
        if (slots[i].name && !slots[i].sent) {
            ask_name(&slots[i]);
        }
    }
    ask_next();
    free_spenders();
    ngx_add_timer(ev, TICK_MS);
}


/* At a worker's start: no request is there yet. */
void
edge_resolve_wait(ngx_msec_t timeout)
{
    struct pollfd  pfd = { helper.fd, POLLIN, 0 };

    for (ngx_msec_t waited = 0; untried && waited < timeout; waited += 20) {
        if (poll(&pfd, 1, 20) > 0) {
            collect_answers();
        }
    }
}


/* A helper's end of names: at the start, and when another one took its place. */
ngx_int_t
edge_resolve_connect(int fd, ngx_log_t *log)
{
    ngx_uint_t  i;

    link_close(&helper);
    if (link_watch(&helper, fd, on_readable, log) != NGX_OK) {
        return NGX_ERROR;
    }
    for (i = 0; i < EDGE_RESOLVERS; i++) {
        if (slots[i].name) {
            slots[i].since = ngx_current_msec;
            ask_name(&slots[i]);
        }
    }
    ask_next();
    return NGX_OK;
}


/* Once the table from disk is there. */
void
edge_resolve_start(ngx_cycle_t *cycle, void (*handler)(void))
{
    on_answer = handler;
    started = 1;
    edge_timer_start(&tick, on_tick, cycle->log, TICK_MS);
    ask_next();
}


void
edge_resolve_stop(void)
{
    started = 0;
    link_close(&helper);
}
