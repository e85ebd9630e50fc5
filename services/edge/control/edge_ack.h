/* Acknowledgements of what is in force. A change whose names are being resolved is in force at
 * once and acknowledged once they are and the open streams that it takes away have ended, or a
 * while later; and what would not survive a restart, because it is not on disk, is not
 * acknowledged. How many streams ended goes along. */
#pragma once

#include "services/edge/control/edge_resolve.h"

/* This revision is in force. names: those that came with it, the caller's no more; NULL: none. */
void edge_ack_take(int64_t revision, edge_wait_t *names);

/* What is in force replaces everything: what waits was of another history, perhaps of another
 * log. */
void edge_ack_reset(void);

/* Names have addresses, streams were judged, or time passed: acknowledge what waits for nothing
 * any more, or has waited long enough. */
void edge_ack_release(void);

/* Say the last acknowledgement again: what waits for names waits further. */
void edge_ack_repeat(void);

/* What comes in force now is acknowledged once streams have been judged up to that number of a
 * change; numbers only rise. And: they have been. */
void edge_ack_expect_judged(uint64_t number);
void edge_ack_set_judged(uint64_t number);
/* A stream was ended for that revision. */
void edge_ack_count_ended(int64_t revision);

/* Is anything not acknowledged yet? */
ngx_uint_t edge_ack_is_waiting(void);

/* From the helper: what follows is on disk, or is not. */
void edge_ack_set_kept(ngx_uint_t kept);
ngx_uint_t edge_ack_is_kept(void);
