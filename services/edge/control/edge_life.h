/* The life of a worker's helper process, and the worker's end of the link to it: it is started,
 * asked for signs of life, taken for dead, and replaced by another one. */
#pragma once

#include "services/edge/control/edge_link.h"

/* Called for each message of the helper's. */
typedef void (*edge_life_handler_pt)(link_message_t *message);

/* Start the first one, and wait until its sockets exist. NGX_OK | NGX_ERROR, logged by who
 * failed. */
ngx_int_t edge_life_open(edge_life_handler_pt handler, ngx_log_t *log);

/* At each beat: does it live? One that can answer no more (liveness.h) is killed. */
void edge_life_ping(void);

/* Another one in the place of one that is gone: 1. Both conversations are to be begun again,
 * since the old one may have died with messages in its queues. */
ngx_uint_t edge_life_revive(void);

/* At the worker's end: the helper sends the messages that it has, EDGE_LINGER_MS at most; then the
 * link is closed. */
void edge_life_stop(void);

/* Send without waiting: see link_send. */
ngx_int_t edge_life_send(link_kind_t kind, const ngx_str_t *frames, ngx_uint_t n);

/* Send texts, NULL behind the last. Sends are best effort: the beat repeats hellos and
 * acknowledgements. */
void edge_life_say(link_kind_t kind, const char *const *texts);

/* Wait for messages without the event loop, so long at most, and handle them: 1 when any came. */
ngx_uint_t edge_life_poll(ngx_msec_t timeout);

/* Frame i as a C string, cut to size; "" when it is missing. */
const char *edge_life_text(const link_message_t *message, ngx_uint_t i, char *out, size_t size);

/* Frame i as a decimal number; 0 when it is missing or none. */
int64_t edge_life_number(const link_message_t *message, ngx_uint_t i);

/* Frames: "refused", code, name. It goes on for as long as the name and the key do not belong
 * together: logged once a minute. */
void edge_life_log_refused(const char *who, const link_message_t *message);
