#include "services/gateway/owners.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"

#include <czmq.h>

struct owners {
    zhashx_t *table;
    size_t calls, calls_max, unread;
};

static void destroy_owner(void **item)
{
    free(*item);
    *item = NULL;
}

owners_t *owners_new(size_t calls_max)
{
    owners_t *self = memory_new(sizeof(*self), "owners of connections");

    self->table = memory_need(zhashx_new(), "owners of connections");
    zhashx_set_destructor(self->table, destroy_owner);
    self->calls_max = calls_max;
    return self;
}

void owners_destroy(owners_t **self_p)
{
    owners_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    zhashx_destroy(&self->table);
    free(self);
}

owner_t *owners_join(owners_t *self, const char *name)
{
    owner_t *owner = zhashx_lookup(self->table, name);

    if (!owner) {
        owner = memory_new(sizeof(*owner), "an owner of connections");
        snprintf(owner->name, sizeof(owner->name), "%s", name);
        zhashx_update(self->table, name, owner);
    }
    owner->references++;
    return owner;
}

void owners_leave(owners_t *self, owner_t **owner_p)
{
    owner_t *owner = *owner_p;

    *owner_p = NULL;
    INVARIANT(owner->references > 0);
    if (--owner->references)
        return;
    INVARIANT(!owner->connections && !owner->calls && !owner->unread);
    zhashx_delete(self->table, owner->name);
}

bool owners_begin_call(owners_t *self, owner_t *owner)
{
    INVARIANT(self->calls <= self->calls_max);
    if (owner->calls >= self->calls_max - self->calls)
        return false;
    owner->calls++;
    self->calls++;
    return true;
}

void owners_end_call(owners_t *self, owner_t *owner)
{
    INVARIANT(owner->calls > 0 && self->calls > 0);
    owner->calls--;
    self->calls--;
}

void owners_add_unread(owners_t *self, owner_t *owner, size_t bytes)
{
    owner->unread += bytes;
    self->unread += bytes;
}

void owners_take_unread(owners_t *self, owner_t *owner, size_t bytes)
{
    INVARIANT(bytes <= owner->unread && bytes <= self->unread);
    owner->unread -= bytes;
    self->unread -= bytes;
}

size_t owners_unread(const owners_t *self)
{
    return self->unread;
}
