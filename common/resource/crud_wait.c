/* Verbs that wait without a worker (waits.h): what a handler says, and what it is given when it is
 * run again. */
#include "common/base/cleanup.h"
#include "common/resource/crud.h"

#include <errno.h>

static int leave_state(wait_t *wait, void **state_p, void (*free_state)(void **))
{
    if (wait->state && wait->state != *state_p)
        wait->free_state(&wait->state);
    wait->state = take(*state_p);
    wait->free_state = free_state;
    return VERB_WAITS;
}

int crud_fetch(crud_t *self, const outbound_request_t *request, unsigned least_ms, void **state_p,
               void (*free_state)(void **))
{
    int r = wait_fetch(self->wait, request);

    if (r)
        return r;
    self->wait->least_ms = least_ms;
    return leave_state(self->wait, state_p, free_state);
}

int crud_ask(crud_t *self, const char *owner, const char *verb, json_t *body, unsigned timeout_ms,
             void **state_p, void (*free_state)(void **))
{
    int64_t now = bus_mono_ms(), left = self->request->deadline_ms - now - WAIT_ANSWER_MS;
    int r = wait_ask(self->wait, owner, verb, body,
                     now + (left < (int64_t)timeout_ms ? left > 0 ? left : 1 : timeout_ms));

    return r ? r : leave_state(self->wait, state_p, free_state);
}

int crud_pause(crud_t *self, const char *owner, unsigned ms, void **state_p,
               void (*free_state)(void **))
{
    int r = wait_pause(self->wait, owner, bus_mono_ms() + ms);

    return r ? r : leave_state(self->wait, state_p, free_state);
}

int crud_go_on(crud_t *self, const char *owner, void **state_p, void (*free_state)(void **))
{
    int r = wait_go_on(self->wait, owner, bus_mono_ms());

    return r ? r : leave_state(self->wait, state_p, free_state);
}

void crud_weigh(crud_t *self, size_t bytes)
{
    self->wait->state_bytes = bytes;
}

void *crud_resumed(crud_t *self, const wait_answer_t **ret_answer)
{
    wait_t *wait = self->wait;

    *ret_answer = wait->answered ? &wait->answer : NULL;
    return wait->state;
}
