#include <criterion/criterion.h>
#include <stdlib.h>

#include "services/edge/http/slots.h"

enum { ALL = 64 };

typedef struct {
    slots_t slots;
    slots_part_t parts[2 * ALL];
    size_t count;
} held_t;

static held_t *nobody(void)
{
    held_t *self = calloc(1, sizeof(*self));

    cr_assert(self);
    return self;
}

/* How many does it get? */
static size_t take_all(held_t *self, size_t percent, uint32_t client)
{
    size_t before = self->count;

    while (slots_take(&self->slots, &self->parts[self->count], ALL, percent, client))
        self->count++;
    return self->count - before;
}

static uint32_t client_in(uint32_t network, uint32_t client)
{
    return network << 16 | (network * 200 + client);
}

Test(slots, one_client_leaves_more_than_half_to_others)
{
    held_t *self = nobody();

    cr_assert_eq(take_all(self, 100, 1), 24);
    cr_assert_eq(take_all(self, 100, 2), 12);
    cr_assert_gt(take_all(self, 100, 3), 5);
    free(self);
}

Test(slots, who_has_none_may_have_the_last_one)
{
    held_t *self = nobody();

    for (uint32_t client = 1; client <= ALL; client++)
        cr_assert(slots_take(&self->slots, &self->parts[self->count++], ALL, 100, client));
    cr_assert_eq(take_all(self, 100, ALL + 1), 0, "there is none");
    slots_give(&self->slots, &self->parts[7]);
    cr_assert_eq(take_all(self, 100, 1), 0, "for one that has one");
    cr_assert_eq(take_all(self, 100, ALL + 1), 1);
    free(self);
}

Test(slots, clients_of_one_network_leave_some_to_other_networks)
{
    held_t *self = nobody();

    for (uint32_t client = 1; client <= 2 * ALL; client++)
        take_all(self, 100, client_in(1, client));
    cr_assert_leq(self->count, ALL * 61 / 100 + 1, "%zu", self->count);
    cr_assert_gt(take_all(self, 100, client_in(2, 1)), 2);
    free(self);
}

Test(slots, who_speaks_for_many_leaves_half_to_others)
{
    held_t *self = nobody();

    cr_assert_eq(take_all(self, 100, 0), ALL / 2);
    cr_assert_gt(take_all(self, 100, 1), 5);
    free(self);
}

Test(slots, as_much_as_somebody_sets_is_what_a_client_has)
{
    held_t *self = nobody();

    cr_assert_eq(take_all(self, 1, 1), 1);
    cr_assert_gt(take_all(self, 10000, 2), 50);
    free(self);
}

Test(slots, what_is_given_back_once_can_be_taken_again)
{
    held_t *self = nobody();
    slots_part_t one = {0};

    take_all(self, 100, 0);
    take_all(self, 100, client_in(1, 1));
    take_all(self, 100, client_in(2, 1));
    cr_assert(slots_take(&self->slots, &one, ALL, 100, client_in(3, 1)));
    cr_assert(slots_take(&self->slots, &one, ALL, 100, 5), "it has one already");
    cr_assert_eq(one.client, client_in(3, 1));
    slots_give(&self->slots, &one);
    while (self->count) {
        slots_give(&self->slots, &self->parts[--self->count]);
        slots_give(&self->slots, &self->parts[self->count]);
    }
    cr_assert_eq(self->slots.taken + self->slots.of_many, 0);
    for (size_t i = 0; i < SLOTS_CLIENTS; i++)
        cr_assert_eq(self->slots.clients[i] + self->slots.networks[i], 0);
    cr_assert_not(slots_take(&self->slots, &one, 0, 100, 1), "of none");
    free(self);
}
