#include "services/edge/http/failover.h"

size_t failover_size(const backend_t *backend)
{
    return sizeof(failover_t) + backend->member_count * sizeof(failover_member_t);
}

void failover_begin(failover_t *self, backend_t *backend)
{
    backend->refs++;
    self->backend = backend;
}

/* Is the member one to dial, or to be answered by? */
static bool look_at(failover_t *self, size_t i, const failover_ports_t *ports, void *context)
{
    failover_member_t *member = &self->members[i];
    backend_t *through = NULL;

    member->backend = ports->look_up(context, self->backend->members[i], &through);
    if (!member->backend)
        return false;
    member->backend->refs++;
    if (through)
        through->refs++;
    member->through = through;
    if (member->backend->http_response) {
        self->known = REACH_UP;
        return true;
    }
    if (!ports->can_dial(context, member->backend))
        return false;
    self->known = ports->ask(context, member->backend);
    if (self->known != REACH_DOWN)
        return true;
    member->passed = true;
    self->passed++;
    return false;
}

backend_t *failover_next(failover_t *self, const failover_ports_t *ports, void *context)
{
    self->passed = 0;
    while (self->at < self->backend->member_count) {
        self->current = &self->members[self->at++];
        if (look_at(self, self->at - 1, ports, context))
            return self->current->backend;
    }
    self->known = REACH_DOWN;
    while (self->again < self->backend->member_count) {
        self->current = &self->members[self->again++];
        if (self->current->passed && ports->can_dial(context, self->current->backend))
            return self->current->backend;
    }
    self->current = NULL;
    return NULL;
}

void failover_end(failover_t *self)
{
    for (size_t i = 0; i < self->backend->member_count; i++) {
        backend_release(self->members[i].through);
        backend_release(self->members[i].backend);
    }
    backend_release(self->backend);
    self->backend = NULL;
}
