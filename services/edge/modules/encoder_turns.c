#include "services/edge/modules/encoder_turns.h"

#include "common/base/invariant.h"

#include <stddef.h>

/* ---- a list by its first and last, whose items have before and after ---- */

#define APPEND(list, item)                                                                         \
    do {                                                                                           \
        (item)->before = (list)->last;                                                             \
        (item)->after = NULL;                                                                      \
        *((list)->last ? &(list)->last->after : &(list)->first) = (item);                          \
        (list)->last = (item);                                                                     \
    } while (0)

#define REMOVE(list, item)                                                                         \
    do {                                                                                           \
        INVARIANT((item)->before ? (item)->before->after == (item) : (list)->first == (item));     \
        INVARIANT((item)->after ? (item)->after->before == (item) : (list)->last == (item));       \
        *((item)->before ? &(item)->before->after : &(list)->first) = (item)->after;               \
        *((item)->after ? &(item)->after->before : &(list)->last) = (item)->before;                \
        (item)->before = (item)->after = NULL;                                                     \
    } while (0)

/* ---- those that wait ---- */

void encoder_turns_wait(encoder_turns_t *self, encoder_turn_t *turn, uint32_t account,
                        uint32_t client)
{
    encoder_client_t *line = &self->clients[client % ENCODER_CLIENTS];
    encoder_account_t *owner = &self->accounts[account % ENCODER_ACCOUNTS];

    INVARIANT(!turn->waits);
    if (!line->first) {
        if (!owner->first)
            APPEND(self, owner);
        line->account = account % ENCODER_ACCOUNTS;
        APPEND(owner, line);
    }
    turn->client = client % ENCODER_CLIENTS;
    turn->waits = true;
    APPEND(line, turn);
}

void encoder_turns_leave(encoder_turns_t *self, encoder_turn_t *turn)
{
    encoder_client_t *line = &self->clients[turn->client];
    encoder_account_t *owner = &self->accounts[line->account];

    if (!turn->waits)
        return;
    REMOVE(line, turn);
    turn->waits = false;
    if (line->first)
        return;
    REMOVE(owner, line);
    if (!owner->first)
        REMOVE(self, owner);
}

encoder_turn_t *encoder_turns_first(const encoder_turns_t *self)
{
    return self->first ? self->first->first->first : NULL;
}

encoder_turn_t *encoder_turns_next(encoder_turns_t *self)
{
    encoder_turn_t *turn = encoder_turns_first(self);
    encoder_account_t *owner = self->first;
    encoder_client_t *line = turn ? owner->first : NULL;

    if (!turn)
        return NULL;
    encoder_turns_leave(self, turn);
    if (line->first) {
        REMOVE(owner, line);
        APPEND(owner, line);
    }
    if (owner->first) {
        REMOVE(self, owner);
        APPEND(self, owner);
    }
    return turn;
}
