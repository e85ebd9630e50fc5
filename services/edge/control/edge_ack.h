/* Acknowledgements of what is in force, of each log by itself. A change whose names are being
 * resolved is in force at once and acknowledged once they are and the open streams that it takes
 * away have ended, or a while later; and what would not survive a restart, because it is not on
 * disk, is not acknowledged. How many streams ended goes along. */
#pragma once

#include "services/edge/control/edge_logs.h"
#include "services/edge/control/edge_resolve.h"

/* This revision is in force. names: those that came with it, the caller's no more; NULL: none. */
void edge_ack_take(edge_log_t log, int64_t revision, edge_wait_t *names);

/* What is in force replaces everything: what waits was of another history, perhaps of another
 * log. */
void edge_ack_reset(edge_log_t log);

/* Names have addresses, streams were judged, or time passed: acknowledge what waits for nothing
 * any more, or has waited long enough. */
void edge_ack_release(edge_log_t log);
void edge_ack_release_all(void);

/* Say the last acknowledgement again: what waits for names waits further. */
void edge_ack_repeat(edge_log_t log);

/* What comes in force now is acknowledged once streams have been judged up to that number of a
 * change; numbers only rise, over all logs. And: they have been. */
void edge_ack_expect_judged(edge_log_t log, uint64_t number);
void edge_ack_set_judged(uint64_t number);
/* As expect, for a number that no change of a log asked for: nothing waits for it. */
void edge_ack_pass_judged(uint64_t number);
/* A stream was ended for that revision. */
void edge_ack_count_ended(edge_log_t log, int64_t revision);

/* Is anything not acknowledged yet? */
ngx_uint_t edge_ack_is_waiting(edge_log_t log);

/* From the helper: what follows of the config log is on disk, or is not. */
void edge_ack_set_kept(ngx_uint_t kept);
ngx_uint_t edge_ack_is_kept(void);
