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

/* Looks the current member up in the table of this moment. Is it one that can be dialled, or that
 * answers by itself? */
static bool look_at(failover_t *self, const failover_ports_t *ports, void *context, bool may_dial)
{
    failover_member_t *member = self->current;
    const char *id = self->backend->members[member - self->members];
    backend_t *backend = ports->look_up(context, id, member->backend);

    if (backend)
        backend->refs++;
    backend_release(member->backend);
    member->backend = backend;
    if (!backend)
        return false;
    if (backend->http_response)
        return true;
    self->cut |= !may_dial;
    return may_dial && ports->can_dial(context, backend);
}

/* Is the current member not known as down? Of those that may be tried again a request tries one: a
 * row of them that is dead would use up its dials each time. */
static bool ask_for(failover_t *self, const failover_ports_t *ports, void *context)
{
    failover_member_t *member = self->current;
    bool take = self->dialling && !self->tried;
    reach_answer_t known = ports->ask(context, member->backend, take);

    self->known = REACH_UP;
    if (known == REACH_UP || (known == REACH_TRIAL && !self->dialling))
        return true;
    if (known == REACH_TRIAL && take) {
        self->known = REACH_TRIAL;
        self->tried = true;
        return true;
    }
    member->passed = true;
    self->passed++;
    return false;
}

/* The first time, members that are not known as down. */
static bool walk_on(failover_t *self, const failover_ports_t *ports, void *context, bool may_dial)
{
    while (self->at < self->backend->member_count) {
        self->current = &self->members[self->at++];
        self->known = REACH_UP;
        if (look_at(self, ports, context, may_dial)
            && (self->current->backend->http_response || ask_for(self, ports, context)))
            return true;
    }
    return false;
}

/* Then those that were passed over, whatever is known of them. */
static bool walk_again(failover_t *self, const failover_ports_t *ports, void *context,
                       bool may_dial)
{
    size_t count = self->backend->member_count;

    if (count && !self->again)
        self->first = (size_t)(ports->turn(context, self->backend) % count);
    while (self->again < count) {
        self->current = &self->members[(self->first + self->again++) % count];
        self->known = REACH_DOWN;
        if (self->current->passed && look_at(self, ports, context, may_dial))
            return true;
    }
    return false;
}

static backend_t *find_next(failover_t *self, const failover_ports_t *ports, void *context,
                            uint64_t now)
{
    bool may_dial = !self->dialling || (self->dials < FAILOVER_DIALS_MAX && now < self->until);

    if (!walk_on(self, ports, context, may_dial) && !walk_again(self, ports, context, may_dial)) {
        self->current = NULL;
        return NULL;
    }
    self->dials += self->dialling && !self->current->backend->http_response;
    return self->current->backend;
}

backend_t *failover_choose(failover_t *self, const failover_ports_t *ports, void *context)
{
    self->passed = 0;
    return find_next(self, ports, context, 0);
}

backend_t *failover_dial(failover_t *self, const failover_ports_t *ports, void *context,
                         uint64_t now)
{
    self->passed = 0;
    self->dialling = true;
    self->until = now + FAILOVER_DIALS_MS;
    if (self->known != REACH_DOWN && !ask_for(self, ports, context))
        return find_next(self, ports, context, now);
    self->dials = 1;
    return self->current->backend;
}

backend_t *failover_next(failover_t *self, const failover_ports_t *ports, void *context,
                         uint64_t now)
{
    self->passed = 0;
    return find_next(self, ports, context, now);
}

bool failover_holds_over(const failover_t *self)
{
    for (size_t i = 0; i < self->backend->member_count; i++)
        if (self->members[i].backend && self->members[i].backend->version.is_over)
            return true;
    return self->backend->version.is_over;
}

void failover_end(failover_t *self)
{
    for (size_t i = 0; i < self->backend->member_count; i++)
        backend_release(self->members[i].backend);
    backend_release(self->backend);
    self->backend = NULL;
}
