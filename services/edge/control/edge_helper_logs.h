/* In the helper: the logs that the worker follows, of configuration and of sessions, as the copies
 * of their services tell them. */
#pragma once

#include "services/edge/control/edge_link.h"
#include "services/edge/control/edge_socket.h"
#include "services/edge/control/merge.h"

enum { EDGE_HELPER_LOGS_ITEMS = 2 * MERGE_COPIES_MAX };   /* of edge_helper_logs_poll */

/* Connect to the copies; worker is kept. NGX_OK | NGX_ERROR, logged: not to those of the config
 * log. */
ngx_int_t edge_helper_logs_open(void **context, link_t *worker);
void edge_helper_logs_close(void);

/* Pass a message of the worker's on: LINK_CONFIG or LINK_SESSIONS. */
void edge_helper_logs_take(const link_message_t *message);

/* What is to be polled for them: so many, EDGE_HELPER_LOGS_ITEMS at most. */
int edge_helper_logs_poll(zmq_pollitem_t *items);

/* Pass on what the copies have for the worker. NGX_OK | NGX_ERROR: the worker is gone. */
ngx_int_t edge_helper_logs_turn(void);
