#include "services/edge/http/portion.h"
#include "common/base/invariant.h"

#include <math.h>

enum { PRECISION = 4096 }; /* parts of all in which portion_allows counts */

static size_t rest_of(size_t all, size_t part)
{
    return all > part ? all - part : 0;
}

static size_t size_min(size_t one, size_t other)
{
    return one < other ? one : other;
}

static size_t size_max(size_t one, size_t other)
{
    return one > other ? one : other;
}

/* ---- how much ---- */

/* The smaller x of x = p * (left - x)^2 / all. */
size_t portion_most(size_t all, size_t left, size_t percent)
{
    double p = (double)percent / 100, a = (double)all, l = (double)left;

    return all && percent ? (size_t)((2 * p * l + a - sqrt(a * a + 4 * p * l * a)) / (2 * p)) : 0;
}

size_t portion_percent_for(size_t all, size_t amount)
{
    size_t left = rest_of(all, amount), whole = all ? left * (left * PRECISION / all) : 0;

    return whole ? (amount * 100 * PRECISION + whole - 1) / whole : PORTION_PERCENT_MAX;
}

/* An account is no smaller than four clients that have `one` each: so one of them, and its next
 * one, have what they need within a portion that is an ordinary one. */
portion_percents_t portion_percents(size_t all, size_t one, size_t client, size_t account)
{
    portion_percents_t out = {
        .client = size_max(client, portion_percent_for(all, one)),
        .account = size_max(account, portion_percent_for(all, PORTION_NETWORK * one))};

    out.theirs =
        size_max(out.client, portion_percent_for(portion_most(all, all, out.account), one));
    return out;
}

/* ---- clients and networks ---- */

static size_t network_percent(size_t percent)
{
    return size_min(percent * PORTION_NETWORK, PORTION_PERCENT_MAX);
}

bool portion_network_allows(size_t network, size_t client, size_t more, size_t all, size_t left,
                            size_t percent)
{
    size_t wide = network_percent(percent), most;
    size_t within = size_max(percent * PORTION_WITHIN, PORTION_WITHIN_LEAST);

    if (!portion_allows(network, more, all, left, wide))
        return false;
    if (within > PORTION_PERCENT_MAX) /* so large that one may have all but all */
        return true;
    most = portion_most(all, left + network, wide);
    return portion_allows(client, more, most, rest_of(most, network), within);
}

bool portion_network_allows_one(size_t network, size_t client, size_t all, size_t left,
                                size_t percent)
{
    return !network
           || (client ? portion_network_allows(network, client, 1, all, left, percent)
                      : portion_allows(network, 1, all, left, network_percent(percent)));
}

/* May the client, and its network, take the amount? */
static bool client_may_take(const portions_t *self, uint32_t client, size_t amount, size_t all,
                            size_t percent)
{
    size_t has = self->clients[client % PORTION_CLIENTS], left = all - self->taken;
    uint32_t network = portion_network(client);

    return portion_allows(has, amount, all, left, percent)
           && (!network
               || portion_network_allows(self->networks[network % PORTION_CLIENTS], has, amount,
                                         all, left, percent));
}

/* From now on the client has so much. */
static void client_set(portions_t *self, uint32_t client, size_t has)
{
    size_t *had = &self->clients[client % PORTION_CLIENTS];

    self->crowd += size_min(has, self->few);
    self->crowd -= size_min(*had, self->few);
    *had = has;
}

bool portion_take(portions_t *self, portion_t *part, size_t all, size_t percent, uint32_t client,
                  size_t amount)
{
    size_t left = rest_of(all, self->taken);

    if (part->amount)
        return true;
    if (amount > left || (client && !client_may_take(self, client, amount, all, percent)))
        return false;
    if (!self->taken)
        self->few = all / PORTION_FEW;
    self->taken += amount;
    if (client)
        client_set(self, client, self->clients[client % PORTION_CLIENTS] + amount);
    else
        self->crowd += amount;
    if (portion_network(client))
        self->networks[portion_network(client) % PORTION_CLIENTS] += amount;
    *part = (portion_t){.amount = amount, .client = client};
    return true;
}

/* ---- accounts ---- */

/* May the client have the amount beside what it has at the account, which has `has` of `most`? */
static bool client_may_there(const portions_t *self, const portion_account_t *to, size_t has,
                             size_t amount, size_t most)
{
    return !to->theirs
           || portion_allows(self->theirs[to->theirs % PORTION_CLIENTS], amount, most,
                             rest_of(most, has), to->client_percent);
}

/* What an account that has `has` by now may have at most, of what crowds at others leave to it. The
 * amount is its client's already, and of the crowd. */
static size_t most_beside_crowds(const portions_t *self, size_t own, size_t has, size_t amount,
                                 size_t all, size_t left, size_t percent)
{
    size_t others = rest_of(self->crowd, own + amount);

    return size_min(portion_most(all, rest_of(all, others), percent),
                    has + rest_of(left, all / PORTION_LAST));
}

/* May the account, and its client there, have the amount, which is one of `left` still? */
static bool account_may_have(const portions_t *self, const portion_account_t *to, size_t amount,
                             size_t all, size_t left)
{
    size_t has = self->accounts[to->account % PORTION_ACCOUNTS], most;
    size_t own = self->crowds[to->account % PORTION_ACCOUNTS];

    if (portion_allows(has, amount, all, left, to->percent)
        && client_may_there(self, to, has, amount, portion_most(all, left + has, to->percent)))
        return true;
    if (to->of_left)
        return false;
    most = most_beside_crowds(self, own, has, amount, all, left, to->percent);
    return amount <= rest_of(most, has) && client_may_there(self, to, has, amount, most);
}

/* The account has so much more and less from now on, and so has its client there. Of who speaks for
 * many all is of the crowd. */
static void account_set(portions_t *self, const portion_t *part, size_t more, size_t less)
{
    size_t *crowd = &self->crowds[part->account % PORTION_ACCOUNTS];
    size_t *theirs = &self->theirs[part->theirs % PORTION_CLIENTS];

    self->accounts[part->account % PORTION_ACCOUNTS] += more - less;
    if (!part->theirs) {
        *crowd += more - less;
        return;
    }
    *crowd -= size_min(*theirs, self->few);
    *theirs += more - less;
    *crowd += size_min(*theirs, self->few);
}

bool portion_charge_account(portions_t *self, portion_t *part, size_t all,
                            const portion_account_t *to)
{
    size_t left = rest_of(all, self->taken);

    if (part->account || !part->amount)
        return true;
    if (!account_may_have(self, to, part->amount, all, left + part->amount))
        return false;
    part->account = to->account;
    part->theirs = to->theirs;
    if (part->account)
        account_set(self, part, part->amount, 0);
    return true;
}

/* ---- what is given back ---- */

void portion_keep(portions_t *self, portion_t *part, size_t amount)
{
    size_t client = self->clients[part->client % PORTION_CLIENTS];
    size_t *network = &self->networks[portion_network(part->client) % PORTION_CLIENTS];
    size_t account = self->accounts[part->account % PORTION_ACCOUNTS];
    size_t theirs = self->theirs[part->theirs % PORTION_CLIENTS];
    size_t less = rest_of(part->amount, amount);

    INVARIANT(part->amount <= self->taken); /* each part is given back once */
    INVARIANT(!part->client || part->amount <= client);
    INVARIANT(!portion_network(part->client) || part->amount <= *network);
    INVARIANT(!part->account || part->amount <= account);
    INVARIANT(!part->theirs || part->amount <= theirs);
    self->taken -= less;
    if (part->client)
        client_set(self, part->client, client - less);
    else
        self->crowd -= less;
    if (portion_network(part->client))
        *network -= less;
    if (part->account)
        account_set(self, part, 0, less);
    part->amount -= less;
}

void portion_give(portions_t *self, portion_t *part)
{
    portion_keep(self, part, 0);
    *part = (portion_t){0};
}
