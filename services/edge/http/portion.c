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

/* ---- crowds ---- */

static size_t few_of(size_t all)
{
    return size_max(all / PORTION_FEW, PORTION_FEWEST);
}

/* Of something that there is so much less of. Each part is given back once. */
static void take_off(size_t *has, size_t less)
{
    INVARIANT(less <= *has);
    *has -= less;
}

size_t portion_client_more(portion_client_t *self, size_t *crowd, size_t amount, size_t all)
{
    size_t few = size_min(few_of(all), UINT32_MAX);
    size_t more = size_min(amount, rest_of(few, self->has));
    size_t own = size_min(amount, rest_of(few, self->own));

    self->has += amount;
    self->crowd += (uint32_t)more;
    self->own += (uint32_t)own;
    *crowd += more;
    return own;
}

void portion_client_less(portion_client_t *self, size_t *crowd, size_t amount, size_t own)
{
    size_t less;

    INVARIANT(own <= amount && own <= self->own);
    take_off(&self->has, amount);
    less = rest_of(self->crowd, self->has);
    take_off(crowd, less);
    self->crowd -= (uint32_t)less;
    self->own -= (uint32_t)own;
}

/* What an account or a network may have at most of what the crowds of others leave to it, so that
 * `last` of all are left. */
static size_t most_beside_crowds(const portion_crowd_t *who, size_t all, size_t left,
                                 size_t percent, size_t last)
{
    size_t others = rest_of(who->crowd, who->own);

    return size_min(portion_most(all, rest_of(all, others), percent),
                    who->has + rest_of(left, last));
}

/* ---- clients and networks ---- */

static size_t network_percent(size_t percent)
{
    return size_min(percent * PORTION_NETWORK, PORTION_PERCENT_MAX);
}

/* May the client have more beside what it has, where its network has `network` of `most`? */
static bool client_may_within(size_t client, size_t more, size_t network, size_t most,
                              size_t percent)
{
    size_t within = size_max(percent * PORTION_WITHIN, PORTION_WITHIN_LEAST);

    return within > PORTION_PERCENT_MAX /* so large that one may have all but all */
           || portion_allows(client, more, most, rest_of(most, network), within);
}

bool portion_network_allows(size_t network, size_t client, size_t more, size_t all, size_t left,
                            size_t percent)
{
    size_t wide = network_percent(percent);

    return portion_allows(network, more, all, left, wide)
           && client_may_within(client, more, network, portion_most(all, left + network, wide),
                                percent);
}

bool portion_network_allows_one(size_t network, size_t client, size_t all, size_t left,
                                size_t percent)
{
    return !network
           || (client ? portion_network_allows(network, client, 1, all, left, percent)
                      : portion_allows(network, 1, all, left, network_percent(percent)));
}

bool portion_network_allows_few(const portion_crowd_t *network, size_t client, size_t more,
                                size_t all, size_t left, size_t percent)
{
    size_t last = all / PORTION_LAST + all / (2 * PORTION_LAST);
    size_t most = most_beside_crowds(network, all, left, network_percent(percent), last);

    most = size_min(most, all / PORTION_NETWORK_BUSY);
    return (!client || more <= rest_of(few_of(all), client)) && more <= rest_of(most, network->has)
           && client_may_within(client, more, network->has, most, percent);
}

/* May the client's network have the amount? */
static bool network_may_take(const portions_t *self, uint32_t client, size_t amount, size_t all,
                             size_t left, size_t percent)
{
    size_t at = portion_network(client) % PORTION_CLIENTS;
    size_t has = self->clients[client % PORTION_CLIENTS].has;
    portion_crowd_t network = {self->networks[at], self->network_crowds[at], self->crowd};

    return portion_network_allows(network.has, has, amount, all, left, percent)
           || portion_network_allows_few(&network, has, amount, all, left, percent);
}

/* May the client, and its network, take the amount? */
static bool client_may_take(const portions_t *self, uint32_t client, size_t amount, size_t all,
                            size_t percent)
{
    size_t has = self->clients[client % PORTION_CLIENTS].has, left = all - self->taken;

    return portion_allows(has, amount, all, left, percent)
           && (!portion_network(client)
               || network_may_take(self, client, amount, all, left, percent));
}

/* The client, and its network, have what the part has. */
static void client_add(portions_t *self, portion_t *part, size_t all)
{
    portion_client_t *client = &self->clients[part->client % PORTION_CLIENTS];
    size_t network = portion_network(part->client);

    part->crowd = portion_client_more(client, &self->crowd, part->amount, all);
    if (!network)
        return;
    self->networks[network % PORTION_CLIENTS] += part->amount;
    self->network_crowds[network % PORTION_CLIENTS] += part->crowd;
}

bool portion_take(portions_t *self, portion_t *part, size_t all, size_t percent, uint32_t client,
                  size_t amount)
{
    size_t left = rest_of(all, self->taken);

    if (part->amount)
        return true;
    if (amount > left || (client && !client_may_take(self, client, amount, all, percent)))
        return false;
    *part = (portion_t){.amount = amount, .crowd = amount, .client = client};
    if (client)
        client_add(self, part, all);
    else
        self->crowd += amount;
    self->taken += amount;
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

/* May the account, and its client there, have what the part has, which is one of `left` still, and
 * of the crowd already? */
static bool account_may_have(const portions_t *self, const portion_account_t *to,
                             const portion_t *part, size_t all, size_t left)
{
    size_t at = to->account % PORTION_ACCOUNTS, most, amount = part->amount;
    portion_crowd_t account = {self->accounts[at], self->crowds[at] + part->crowd, self->crowd};

    if (portion_allows(account.has, amount, all, left, to->percent)
        && client_may_there(self, to, account.has, amount,
                            portion_most(all, left + account.has, to->percent)))
        return true;
    if (to->of_left)
        return false;
    most = most_beside_crowds(&account, all, left, to->percent, all / PORTION_LAST);
    return amount <= rest_of(most, account.has)
           && client_may_there(self, to, account.has, amount, most);
}

bool portion_charge_account(portions_t *self, portion_t *part, size_t all,
                            const portion_account_t *to)
{
    size_t left = rest_of(all, self->taken);

    if (part->account || !part->amount)
        return true;
    if (!account_may_have(self, to, part, all, left + part->amount))
        return false;
    part->account = to->account;
    part->theirs = to->theirs;
    if (part->theirs)
        self->theirs[part->theirs % PORTION_CLIENTS] += part->amount;
    if (part->account) {
        self->accounts[part->account % PORTION_ACCOUNTS] += part->amount;
        self->crowds[part->account % PORTION_ACCOUNTS] += part->crowd;
    }
    return true;
}

/* ---- what is given back ---- */

void portion_keep(portions_t *self, portion_t *part, size_t amount)
{
    size_t network = portion_network(part->client);
    size_t less = rest_of(part->amount, amount), of_crowd = rest_of(part->crowd, amount);

    take_off(&self->taken, less);
    if (part->client)
        portion_client_less(&self->clients[part->client % PORTION_CLIENTS], &self->crowd, less,
                            of_crowd);
    else
        take_off(&self->crowd, of_crowd);
    if (network) {
        take_off(&self->networks[network % PORTION_CLIENTS], less);
        take_off(&self->network_crowds[network % PORTION_CLIENTS], of_crowd);
    }
    if (part->account) {
        take_off(&self->accounts[part->account % PORTION_ACCOUNTS], less);
        take_off(&self->crowds[part->account % PORTION_ACCOUNTS], of_crowd);
    }
    if (part->theirs)
        take_off(&self->theirs[part->theirs % PORTION_CLIENTS], less);
    part->amount -= less;
    part->crowd -= of_crowd;
}

void portion_give(portions_t *self, portion_t *part)
{
    portion_keep(self, part, 0);
    *part = (portion_t){0};
}
