/* Messages from the intake to producers. Best effort: a message that does not fit into the
 * producer's queue is dropped, and the producer causes another one by sending its batch again. */
#include "services/events/intake_internal.h"

#include <inttypes.h>

static zmsg_t *message_to(const zframe_t *identity, const char *word)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data((zframe_t *)identity), zframe_size((zframe_t *)identity));
    zmsg_addstr(msg, word);
    return msg;
}

static void send_message(intake_t *self, zmsg_t *msg)
{
    zmsg_send(&msg, self->intake);
    zmsg_destroy(&msg); /* when it was not sent */
}

void intake_tell(intake_t *self, zframe_t *identity, const char *word)
{
    send_message(self, message_to(identity, word));
}

void intake_tell_wanted(intake_t *self, zframe_t *identity)
{
    zmsg_t *msg = message_to(identity, "want");

    zmsg_addstr(msg, self->wanted ? "1" : "0");
    send_message(self, msg);
}

void intake_tell_refused(intake_t *self, zframe_t *identity, const char *producer)
{
    zmsg_t *msg = message_to(identity, "refused");

    zmsg_addstrf(msg, "%d", ERR_PEER_PRODUCER);
    zmsg_addstr(msg, producer);
    send_message(self, msg);
}

void intake_acknowledge(intake_t *self, zframe_t *identity, const batch_t *batch, bool bad)
{
    zmsg_t *msg = message_to(identity, bad && batch->audit ? "bad" : "ack");

    zmsg_addstrf(msg, "%" PRId64, batch->seq);
    zmsg_addstr(msg, batch->producer);
    send_message(self, msg);
}
