#include "services/edge/table/shared_text.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <string.h>

shared_text_t *shared_text_new(const char *text, size_t len)
{
    shared_text_t *self = slab_alloc(sizeof(*self) + len + 1);

    self->refs = 1;
    self->len = len;
    memcpy(self->at, text, len);
    return self;
}

shared_text_t *shared_text_ref(shared_text_t *self)
{
    if (self)
        self->refs++;
    return self;
}

void shared_text_unref(shared_text_t **self_p)
{
    shared_text_t *self = *self_p;

    *self_p = NULL;
    if (self && --self->refs == 0)
        slab_free(self);
}

size_t shared_text_cost(const shared_text_t *self, shared_list_t list)
{
    return self && !self->held[list] ? self->len : 0;
}

size_t shared_text_enter(shared_text_t *self, shared_list_t list)
{
    size_t cost = shared_text_cost(self, list);

    if (self)
        self->held[list]++;
    return cost;
}

size_t shared_text_leave(shared_text_t *self, shared_list_t list)
{
    if (self) {
        INVARIANT(self->held[list] > 0);
        self->held[list]--;
    }
    return shared_text_cost(self, list);
}

size_t shared_text_part(const shared_text_t *self, shared_list_t list)
{
    return self && self->held[list] ? (self->len + self->held[list] - 1) / self->held[list] : 0;
}
