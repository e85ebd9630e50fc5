/* In the helper: questions of the worker's to postern-identity, over a DEALER to each of its
 * copies. Which copy has which is relay.c's to say. */
#pragma once

#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_socket.h"

enum { EDGE_HELPER_ASK_ITEMS = 2 * 16 };   /* of edge_helper_ask_poll */

/* Connect to the copies of postern_identity, if there are any. NGX_OK | NGX_ERROR, logged: there is
 * nobody to be asked. */
ngx_int_t edge_helper_ask_open(void **context);
void edge_helper_ask_close(void);

/* Pass a question of the worker's on: a message LINK_ASK. */
void edge_helper_ask_take(link_t *worker, const link_message_t *message);

/* What is to be polled for them: so many, EDGE_HELPER_ASK_ITEMS at most. */
int edge_helper_ask_poll(zmq_pollitem_t *items);

/* How long a poll may take, ms; -1: as long as it likes. */
long edge_helper_ask_patience(void);

/* Pass answers on, and what there is to say of the copies. NGX_OK | NGX_ERROR: the worker is
 * gone. */
ngx_int_t edge_helper_ask_turn(link_t *worker);
