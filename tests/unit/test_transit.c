#include "common/bus/transit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

typedef struct pair {
    zsock_t *router, *peers[2];
} pair_t;

static pair_t connect_pair(void)
{
    pair_t self = {.router = zsock_new(ZMQ_ROUTER)};

    zsock_set_sndhwm(self.router, 4);
    cr_assert_eq(zsock_bind(self.router, "inproc://transit"), 0);
    zsock_set_router_mandatory(self.router, 1);
    for (int i = 0; i < 2; i++) {
        self.peers[i] = zsock_new(ZMQ_DEALER);
        zsock_set_identity(self.peers[i], i ? "b" : "a");
        zsock_set_rcvhwm(self.peers[i], 4);
        zsock_set_rcvtimeo(self.peers[i], 1000);
        cr_assert_eq(zsock_connect(self.peers[i], "inproc://transit"), 0);
    }
    return self;
}

static void close_pair(pair_t *self)
{
    zsock_destroy(&self->router);
    zsock_destroy(&self->peers[0]);
    zsock_destroy(&self->peers[1]);
}

static int say(transit_t *way, pair_t *to, const char *identity, size_t weight)
{
    static const char body[1000];
    transit_frame_t name = {identity, 1}, frames[] = {{"word", 4}, {"", 0}, {body, weight}};

    return transit_send(way, to->router, &name, frames, 3, weight);
}

static void hear(zsock_t *peer)
{
    zmsg_t *msg = zmsg_recv(peer);

    cr_assert(msg && zmsg_size(msg) == 3 && zframe_streq(zmsg_first(msg), "word"));
    zmsg_destroy(&msg);
}

Test(transit, counts_a_message_until_the_one_behind_it_was_taken)
{
    pair_t pair = connect_pair();
    transit_t *way = transit_new(NULL);

    cr_assert_not(transit_needs_probe(way));
    cr_assert_eq(say(way, &pair, "a", 100), 0);
    cr_assert_eq(say(way, &pair, "a", 30), 0);
    cr_assert_eq(transit_bytes(way), 130);
    hear(pair.peers[0]);
    cr_assert_eq(transit_bytes(way), 130);
    hear(pair.peers[0]);
    cr_assert_eq(transit_bytes(way), 30);
    cr_assert(transit_needs_probe(way));
    cr_assert_eq(say(way, &pair, "a", 0), 0);
    cr_assert_not(transit_needs_probe(way));
    hear(pair.peers[0]);
    cr_assert_eq(transit_bytes(way), 0);
    transit_destroy(&way);
    close_pair(&pair);
}

Test(transit, counts_what_all_connections_of_a_key_have)
{
    pair_t pair = connect_pair();
    transit_t *a = transit_new(NULL), *b = transit_new(a), *other = transit_new(NULL);

    cr_assert_eq(say(a, &pair, "a", 100), 0);
    cr_assert_eq(say(b, &pair, "b", 10), 0);
    cr_assert_eq(transit_bytes(a), 100);
    cr_assert_eq(transit_bytes(b), 10);
    cr_assert_eq(transit_key_bytes(a), 110);
    cr_assert_eq(transit_key_bytes(b), 110);
    cr_assert_eq(transit_key_bytes(other), 0);
    transit_destroy(&a);
    cr_assert_eq(transit_key_bytes(b), 10);
    hear(pair.peers[0]); /* of a connection that is not counted any more */
    cr_assert_eq(transit_key_bytes(b), 10);
    transit_destroy(&b);
    transit_destroy(&other);
    close_pair(&pair);
}

/* A full queue takes nothing, and that is neither on its way nor does it say that something left.
 */
Test(transit, refuses_what_there_is_no_room_for)
{
    pair_t pair = connect_pair();
    transit_t *way = transit_new(NULL);
    int sent = 0, r;

    while ((r = say(way, &pair, "a", 10)) == 0)
        sent++;
    cr_assert_eq(r, -EAGAIN);
    cr_assert_gt(sent, 0);
    cr_assert_eq(transit_bytes(way), (size_t)(10 * sent));
    cr_assert(transit_is_full(way));
    cr_assert(transit_needs_probe(way));
    for (int i = 0; i < sent; i++)
        hear(pair.peers[0]);
    cr_assert_eq(transit_bytes(way), 10);
    r = -EAGAIN; /* libzmq looks now and then only */
    for (int i = 0; i < 500 && r == -EAGAIN && !usleep(1000); i++)
        r = say(way, &pair, "a", 0);
    cr_assert_eq(r, 0);
    cr_assert_not(transit_is_full(way));
    hear(pair.peers[0]);
    cr_assert_eq(transit_bytes(way), 0);
    cr_assert_not(transit_needs_probe(way));
    transit_destroy(&way);
    close_pair(&pair);
}

Test(transit, knows_that_a_connection_has_ended)
{
    pair_t pair = connect_pair();
    transit_t *way = transit_new(NULL);
    int r = 0;

    cr_assert_eq(say(way, &pair, "a", 100), 0);
    cr_assert_eq(transit_bytes(way), 100);
    zsock_destroy(&pair.peers[0]);
    for (int i = 0; i < 500 && !(r = say(way, &pair, "a", 0)); i++)
        usleep(10000);
    cr_assert_eq(r, -EHOSTUNREACH);
    cr_assert_eq(transit_bytes(way), 0);
    cr_assert_eq(transit_key_bytes(way), 0);
    transit_destroy(&way);
    close_pair(&pair);
}
