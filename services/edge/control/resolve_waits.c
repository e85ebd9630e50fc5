#include "services/edge/control/resolve_waits.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

struct resolve_wait {
    size_t pending, refs;
};

struct resolve_waiter {
    struct resolve_waiter *next;           /* of the name */
    struct resolve_waiter *before, *after; /* of all that count */
    resolve_credit_t *credit;
    resolve_wait_t *wait; /* NULL: it was released and counts no more */
};

resolve_wait_t *resolve_wait_new(void)
{
    resolve_wait_t *wait = slab_alloc(sizeof(*wait));

    wait->refs = 1;
    return wait;
}

void resolve_wait_drop(resolve_wait_t *wait)
{
    if (!wait)
        return;
    INVARIANT(wait->refs > wait->pending); /* each name that is waited for has one */
    if (--wait->refs == 0)
        slab_free(wait);
}

size_t resolve_wait_pending(const resolve_wait_t *wait)
{
    return wait ? wait->pending : 0;
}

void resolve_waits_add(resolve_waits_t *self, resolve_waiter_t **of_name, resolve_wait_t *wait,
                       resolve_credit_t *credit, int64_t now_ms)
{
    resolve_waiter_t *waiter = slab_alloc(sizeof(*waiter));

    waiter->wait = wait;
    waiter->credit = credit;
    waiter->next = *of_name;
    *of_name = waiter;
    waiter->after = self->first;
    if (self->first)
        self->first->before = waiter;
    self->first = waiter;
    resolve_credit_begin(credit, now_ms);
    wait->pending++;
    wait->refs++;
}

/* It counts no more. The name still has it, until it is answered for. */
static void release_waiter(resolve_waits_t *self, resolve_waiter_t *waiter, int64_t now_ms)
{
    resolve_wait_t *wait = waiter->wait;

    if (!wait)
        return;
    INVARIANT(wait->pending > 0);
    INVARIANT(waiter->before ? waiter->before->after == waiter : self->first == waiter);
    waiter->wait = NULL;
    wait->pending--;
    resolve_wait_drop(wait);
    resolve_credit_end(waiter->credit, now_ms);
    *(waiter->before ? &waiter->before->after : &self->first) = waiter->after;
    if (waiter->after)
        waiter->after->before = waiter->before;
}

void resolve_waits_end(resolve_waits_t *self, resolve_waiter_t **of_name, int64_t now_ms)
{
    resolve_waiter_t *waiter;

    while ((waiter = *of_name)) {
        *of_name = waiter->next;
        release_waiter(self, waiter, now_ms);
        slab_free(waiter);
    }
}

void resolve_waits_release_spent(resolve_waits_t *self, int64_t now_ms)
{
    for (resolve_waiter_t *waiter = self->first, *after; waiter; waiter = after) {
        after = waiter->after;
        if (resolve_credit_is_used_up(waiter->credit, now_ms))
            release_waiter(self, waiter, now_ms);
    }
}
