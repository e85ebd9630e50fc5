#include "services/edge/control/resolve_turns.h"

#include "common/base/invariant.h"

/* ---- lists ---- */

void resolve_list_add(resolve_list_t *self, resolve_item_t *item)
{
    item->before = self->last;
    item->after = NULL;
    *(self->last ? &self->last->after : &self->first) = item;
    self->last = item;
}

void resolve_list_remove(resolve_list_t *self, resolve_item_t *item)
{
    INVARIANT(item->before ? item->before->after == item : self->first == item);
    INVARIANT(item->after ? item->after->before == item : self->last == item);
    *(item->before ? &item->before->after : &self->first) = item->after;
    *(item->after ? &item->after->before : &self->last) = item->before;
    item->before = item->after = NULL;
}

/* ---- turns ---- */

static void join_turn(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind)
{
    asker->before[kind] = self->last[kind];
    asker->after[kind] = NULL;
    *(self->last[kind] ? &self->last[kind]->after[kind] : &self->first[kind]) = asker;
    self->last[kind] = asker;
}

static void leave_turn(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind)
{
    resolve_asker_t *before = asker->before[kind], *after = asker->after[kind];

    INVARIANT(before ? before->after[kind] == asker : self->first[kind] == asker);
    INVARIANT(after ? after->before[kind] == asker : self->last[kind] == asker);
    *(before ? &before->after[kind] : &self->first[kind]) = after;
    *(after ? &after->before[kind] : &self->last[kind]) = before;
    asker->before[kind] = asker->after[kind] = NULL;
}

void resolve_turns_add(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind,
                       resolve_item_t *item)
{
    if (!asker->queue[kind].first)
        join_turn(self, asker, kind);
    resolve_list_add(&asker->queue[kind], item);
}

void resolve_turns_remove(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind,
                          resolve_item_t *item)
{
    resolve_list_remove(&asker->queue[kind], item);
    if (!asker->queue[kind].first)
        leave_turn(self, asker, kind);
}

/* ---- the next query ---- */

static bool may_ask(const resolve_turns_t *self, const resolve_asker_t *asker, resolve_kind_t kind)
{
    size_t all = asker->asked[RESOLVE_FRESH] + asker->asked[RESOLVE_AGAIN];

    if (self->asked[RESOLVE_FRESH] + self->asked[RESOLVE_AGAIN] >= RESOLVE_CROWD)
        return kind == RESOLVE_FRESH && all == 0;
    return all < RESOLVE_ACCOUNT_MAX
           && (kind == RESOLVE_FRESH || asker->asked[RESOLVE_AGAIN] < RESOLVE_ACCOUNT_AGAIN_MAX);
}

/* Of the accounts in turn, the first that may ask; those before it go behind the others. In a crowd
 * none may refresh. Otherwise those that may not ask have queries under way, so that there are at
 * most RESOLVE_QUERIES_MAX of them, and the search is short however many accounts there are. */
static resolve_item_t *next_of_kind(resolve_turns_t *self, resolve_kind_t kind)
{
    for (size_t looked = 0; looked <= RESOLVE_QUERIES_MAX && self->first[kind]; looked++) {
        resolve_asker_t *asker = self->first[kind];
        resolve_item_t *item = asker->queue[kind].first;
        bool may = may_ask(self, asker, kind);

        INVARIANT(item);
        leave_turn(self, asker, kind);
        if (may) {
            resolve_list_remove(&asker->queue[kind], item);
            asker->asked[kind]++;
            self->asked[kind]++;
        }
        if (asker->queue[kind].first)
            join_turn(self, asker, kind);
        if (may)
            return item;
    }
    return NULL;
}

resolve_item_t *resolve_turns_next(resolve_turns_t *self, resolve_kind_t *ret_kind)
{
    size_t all = self->asked[RESOLVE_FRESH] + self->asked[RESOLVE_AGAIN];
    resolve_item_t *item;

    INVARIANT(all <= RESOLVE_QUERIES_MAX);
    if (all == RESOLVE_QUERIES_MAX)
        return NULL;
    *ret_kind = RESOLVE_FRESH;
    item = next_of_kind(self, RESOLVE_FRESH);
    if (item || all >= RESOLVE_CROWD)
        return item;
    *ret_kind = RESOLVE_AGAIN;
    return next_of_kind(self, RESOLVE_AGAIN);
}

void resolve_turns_answered(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind)
{
    INVARIANT(self->asked[kind] > 0 && asker->asked[kind] > 0);
    self->asked[kind]--;
    asker->asked[kind]--;
}
