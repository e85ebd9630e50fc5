#include "services/edge/control/resolve.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/strmap.h"

#include <netinet/in.h>
#include <string.h>

typedef struct account account_t;

typedef enum state {
    NAME_RESTING, /* answered for: in the resolver's list `resting` */
    NAME_QUEUED,  /* in its account's queue */
    NAME_ASKED    /* a query is under way */
} state_t;

struct resolve_name {
    resolve_item_t item; /* in the list that its state says; first, so that an item is a name */
    account_t *account;
    char *host;
    size_t users; /* backends of whatever table, those that only requests still hold included */
    state_t state;
    bool tried;        /* answered for at least once, with an address or without */
    bool unresolved;   /* the last answer had no address, and was reported */
    int64_t answer_ms; /* when the last answer came */
    resolve_waiter_t *waiters;
    struct sockaddr_storage address;
    socklen_t address_len; /* 0: no answer had one yet */
};

struct account {
    resolve_asker_t asker; /* first, so that an asker is an account */
    resolve_credit_t credit;
    char *id;
    strmap_t *names; /* by host */
    /* without names, but with credit that is not paid back */
    bool in_debt;
    account_t *next_debtor;
};

typedef struct query {
    resolve_name_t *name; /* NULL: this place is free */
    uint64_t number;
    int64_t since_ms;
    resolve_kind_t kind;
    bool sent;
} query_t;

struct resolve {
    const resolve_ports_t *ports;
    void *context;
    bool started;
    strmap_t *accounts; /* by id */
    account_t *debtors;
    size_t untried;
    resolve_turns_t turns;
    resolve_waits_t waits;
    resolve_list_t resting; /* the one whose answer is the oldest first */
    query_t queries[RESOLVE_QUERIES_MAX];
    uint64_t last_number;
};

static char *copy_text(const char *text, size_t len)
{
    char *copy = slab_alloc(len + 1);

    memcpy(copy, text, len);
    return copy;
}

/* ---- accounts ---- */

static account_t *account_of(resolve_t *self, const char *id, int64_t now_ms)
{
    size_t len = strlen(id);
    account_t *account = strmap_get(self->accounts, id, len);

    if (account)
        return account;
    account = slab_alloc(sizeof(*account));
    resolve_credit_init(&account->credit, now_ms);
    account->id = copy_text(id, len);
    account->names = strmap_new();
    strmap_put(self->accounts, id, len, account);
    return account;
}

static void account_free(resolve_t *self, account_t *account)
{
    INVARIANT(strmap_count(account->names) == 0 && !account->in_debt);
    INVARIANT(account->credit.waiting == 0);
    for (int kind = 0; kind < RESOLVE_KINDS; kind++)
        INVARIANT(!account->asker.queue[kind].first && account->asker.asked[kind] == 0);
    strmap_del(self->accounts, account->id, strlen(account->id));
    strmap_destroy(&account->names);
    slab_free(account->id);
    slab_free(account);
}

/* An account that comes back with another name must not come with new credit, so what it has spent
 * is remembered until it is paid back. One in the list of debtors stays there until the next tick,
 * though it may have paid by now: the list would lead to freed memory. */
static void account_free_if_unused(resolve_t *self, account_t *account, int64_t now_ms)
{
    if (strmap_count(account->names) || account->in_debt)
        return;
    if (resolve_credit_spent(&account->credit, now_ms) == 0) {
        account_free(self, account);
        return;
    }
    account->in_debt = true;
    account->next_debtor = self->debtors;
    self->debtors = account;
}

static void free_debtors(resolve_t *self, int64_t now_ms)
{
    account_t *next, *all = self->debtors;

    self->debtors = NULL;
    for (account_t *account = all; account; account = next) {
        next = account->next_debtor;
        account->in_debt = false;
        account_free_if_unused(self, account, now_ms); /* which may make it a debtor again */
    }
}

/* Its queries are slow already: no change is held up by one more of its names. */
static bool account_is_stuck(const resolve_t *self, const account_t *account, int64_t now_ms)
{
    for (size_t i = 0; i < RESOLVE_QUERIES_MAX; i++) {
        const query_t *query = &self->queries[i];

        if (query->name && query->name->account == account
            && now_ms - query->since_ms > RESOLVE_STUCK_MS)
            return true;
    }
    return false;
}

/* ---- names ---- */

static resolve_kind_t kind_of(const resolve_name_t *name)
{
    return name->tried ? RESOLVE_AGAIN : RESOLVE_FRESH;
}

static void name_enqueue(resolve_t *self, resolve_name_t *name)
{
    name->state = NAME_QUEUED;
    resolve_turns_add(&self->turns, &name->account->asker, kind_of(name), &name->item);
}

static resolve_name_t *name_of(resolve_t *self, account_t *account, const char *host)
{
    size_t len = strlen(host);
    resolve_name_t *name = strmap_get(account->names, host, len);

    if (name)
        return name;
    name = slab_alloc(sizeof(*name));
    name->account = account;
    name->host = copy_text(host, len);
    strmap_put(account->names, host, len, name);
    self->untried++;
    name_enqueue(self, name);
    return name;
}

/* It is no longer one of the names without any answer. */
static void leave_untried(resolve_t *self, resolve_name_t *name)
{
    if (name->tried)
        return;
    INVARIANT(self->untried > 0);
    name->tried = true;
    self->untried--;
}

static void name_free(resolve_t *self, resolve_name_t *name, int64_t now_ms)
{
    account_t *account = name->account;

    INVARIANT(name->users == 0 && name->state != NAME_ASKED);
    if (name->state == NAME_QUEUED)
        resolve_turns_remove(&self->turns, &account->asker, kind_of(name), &name->item);
    else
        resolve_list_remove(&self->resting, &name->item);
    leave_untried(self, name);
    resolve_waits_end(&self->waits, &name->waiters, now_ms);
    strmap_del(account->names, name->host, strlen(name->host));
    slab_free(name->host);
    slab_free(name);
    account_free_if_unused(self, account, now_ms);
}

resolve_name_t *resolve_hold(resolve_t *self, const char *account_id, const char *host,
                             resolve_wait_t *wait, int64_t now_ms)
{
    account_t *account = account_of(self, account_id, now_ms);
    resolve_name_t *name = name_of(self, account, host);

    name->users++;
    if (wait && !name->tried && !account_is_stuck(self, account, now_ms)
        && !resolve_credit_is_used_up(&account->credit, now_ms))
        resolve_waits_add(&self->waits, &name->waiters, wait, &account->credit, now_ms);
    resolve_ask(self, now_ms);
    return name;
}

/* One that is asked for goes when its answer comes. */
void resolve_release(resolve_t *self, resolve_name_t *name, int64_t now_ms)
{
    INVARIANT(name->users > 0);
    if (--name->users == 0 && name->state != NAME_ASKED)
        name_free(self, name, now_ms);
}

socklen_t resolve_address(const resolve_name_t *name, const struct sockaddr_storage **ret_address)
{
    if (name->address_len)
        *ret_address = &name->address;
    return name->address_len;
}

/* ---- queries ---- */

static void query_send(const resolve_t *self, query_t *query)
{
    query->sent = self->ports->send(self->context, query->number, query->name->host);
}

static void query_begin(resolve_t *self, query_t *query, resolve_name_t *name, resolve_kind_t kind,
                        int64_t now_ms)
{
    INVARIANT(name->state == NAME_QUEUED);
    name->state = NAME_ASKED;
    query->name = name;
    query->kind = kind;
    query->number = ++self->last_number;
    query->since_ms = now_ms;
    query_send(self, query);
}

void resolve_ask(resolve_t *self, int64_t now_ms)
{
    resolve_kind_t kind;
    resolve_item_t *item;

    for (size_t i = 0; self->started && i < RESOLVE_QUERIES_MAX; i++) {
        if (self->queries[i].name)
            continue;
        item = resolve_turns_next(&self->turns, &kind);
        if (!item)
            return;
        query_begin(self, &self->queries[i], (resolve_name_t *)item, kind, now_ms);
    }
}

void resolve_resend(resolve_t *self, int64_t now_ms)
{
    for (size_t i = 0; i < RESOLVE_QUERIES_MAX; i++)
        if (self->queries[i].name) {
            self->queries[i].since_ms = now_ms;
            query_send(self, &self->queries[i]);
        }
    resolve_ask(self, now_ms);
}

/* ---- answers ---- */

static query_t *query_of(resolve_t *self, const char *number, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        if (number[i] < '0' || number[i] > '9' || value > UINT64_MAX / 10 - 1)
            return NULL;
        value = value * 10 + (uint64_t)(number[i] - '0');
    }
    for (size_t i = 0; i < RESOLVE_QUERIES_MAX; i++)
        if (self->queries[i].name && self->queries[i].number == value)
            return &self->queries[i];
    return NULL;
}

static bool is_address(const void *address, size_t len)
{
    sa_family_t family;

    if (len < sizeof(struct sockaddr_in))
        return false;
    memcpy(&family, (const char *)address + offsetof(struct sockaddr, sa_family), sizeof(family));
    return (family == AF_INET && len == sizeof(struct sockaddr_in))
           || (family == AF_INET6 && len == sizeof(struct sockaddr_in6));
}

/* The one place where a name gets its address. */
static void store_address(const resolve_t *self, resolve_name_t *name, const void *address,
                          size_t len)
{
    if (is_address(address, len)) {
        INVARIANT(len <= sizeof(name->address));
        memcpy(&name->address, address, len);
        name->address_len = (socklen_t)len;
        name->unresolved = false;
    } else if (!name->unresolved) {
        name->unresolved = true;
        self->ports->unresolved(self->context, name->account->id, name->host,
                                name->address_len != 0);
    }
}

void resolve_answer(resolve_t *self, const void *number, size_t number_len, const void *address,
                    size_t address_len, int64_t now_ms)
{
    query_t *query = query_of(self, number, number_len);
    resolve_name_t *name;

    if (!query)
        return;
    name = query->name;
    INVARIANT(name->state == NAME_ASKED);
    query->name = NULL;
    resolve_turns_answered(&self->turns, &name->account->asker, query->kind);
    store_address(self, name, address, address_len);
    leave_untried(self, name);
    resolve_waits_end(&self->waits, &name->waiters, now_ms);
    name->state = NAME_RESTING;
    name->answer_ms = now_ms;
    resolve_list_add(&self->resting, &name->item);
    if (name->users == 0)
        name_free(self, name, now_ms);
}

/* ---- time ---- */

void resolve_tick(resolve_t *self, int64_t now_ms)
{
    for (size_t i = 0; i < RESOLVE_TICK_NAMES && self->resting.first; i++) {
        resolve_name_t *name = (resolve_name_t *)self->resting.first;

        if (now_ms - name->answer_ms < RESOLVE_REFRESH_MS)
            break;
        resolve_list_remove(&self->resting, &name->item);
        name_enqueue(self, name);
    }
    for (size_t i = 0; i < RESOLVE_QUERIES_MAX; i++)
        if (self->queries[i].name && !self->queries[i].sent)
            query_send(self, &self->queries[i]);
    resolve_ask(self, now_ms);
    free_debtors(self, now_ms);
}

void resolve_release_spent(resolve_t *self, int64_t now_ms)
{
    resolve_waits_release_spent(&self->waits, now_ms);
}

size_t resolve_untried(const resolve_t *self)
{
    return self->untried;
}

size_t resolve_accounts(const resolve_t *self)
{
    return strmap_count(self->accounts);
}

/* ---- the resolver ---- */

resolve_t *resolve_new(const resolve_ports_t *ports, void *context)
{
    resolve_t *self = slab_alloc(sizeof(*self));

    self->ports = ports;
    self->context = context;
    self->accounts = strmap_new();
    return self;
}

static void account_destroy(resolve_t *self, account_t *account)
{
    resolve_name_t *name;

    while ((name = strmap_pop(account->names))) {
        resolve_waits_end(&self->waits, &name->waiters, account->credit.counted_ms);
        slab_free(name->host);
        slab_free(name);
    }
    strmap_destroy(&account->names);
    slab_free(account->id);
    slab_free(account);
}

void resolve_destroy(resolve_t **self_p)
{
    resolve_t *self = *self_p;
    account_t *account;

    if (!self)
        return;
    while ((account = strmap_pop(self->accounts)))
        account_destroy(self, account);
    strmap_destroy(&self->accounts);
    slab_free(self);
    *self_p = NULL;
}

void resolve_start(resolve_t *self, int64_t now_ms)
{
    self->started = true;
    resolve_ask(self, now_ms);
}

void resolve_stop(resolve_t *self)
{
    self->started = false;
}
