/* A worker's conversation with a log (proto/WIRE.md has the frames): hellos, what the log says, and
 * what follows from it. The helper carries the messages; when it dies another one takes its place,
 * and the conversation begins again. */
#pragma once

#include "services/edge/control/edge_logs.h"

/* Handle a message of the log. */
void edge_follow_message(edge_log_t log, link_message_t *message);

/* Send a hello with a new mark. Messages that come before its answer are ignored. */
void edge_follow_hello(edge_log_t log);

/* Send the last hello once more, with the same mark: an answer to either of them counts. */
void edge_follow_hello_again(edge_log_t log);

/* At each beat: say hello to a log that is silent. Was it said? */
ngx_uint_t edge_follow_beat(edge_log_t log);

/* A sign of life, which repeats what is acknowledged. */
void edge_follow_sign(edge_log_t log);

/* Begin to measure how long the log has been silent. */
void edge_follow_listen(edge_log_t log);

/* Has the log said that the revision in force here is its newest? Since the last
 * edge_follow_expect, or, of a strict log, since it answered the last hello. */
ngx_uint_t edge_follow_is_synced(edge_log_t log);

/* Distrust the log's messages, which may be outdated, until it has answered the next hello. */
void edge_follow_doubt(edge_log_t log);

/* ---- for edge_sync.c, which waits until the log has said what is in force ---- */

/* Trust the log's messages again. */
void edge_follow_trust(edge_log_t log);

/* edge_sync.c begins to wait until the log has confirmed the revision. */
void edge_follow_expect(edge_log_t log);
/* That wait has ended: the log has confirmed it, or time ran out. */
void edge_follow_expected(edge_log_t log);

/* Did time run out in the last wait, and did nothing come from the log since? */
ngx_uint_t edge_follow_is_absent(edge_log_t log);

/* Did a part of a large message come within the last since_ms milliseconds? */
ngx_uint_t edge_follow_is_receiving(edge_log_t log, ngx_msec_t since_ms);
