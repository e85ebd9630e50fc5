/* A worker's conversation with the config log (proto/WIRE.md has the frames): hellos, what the
 * log says, and what follows from it. The helper carries the messages; when it dies another one
 * takes its place, and the conversation begins again. */
#pragma once

#include "services/edge/control/edge_link.h"

/* Begin the conversation, after the table has been loaded from the state file. wants_all: that file
 * was truncated, so the log is asked for a snapshot, of which a new one is written. */
void edge_follow_start(ngx_uint_t wants_all);

/* Handle a message of the config log. */
void edge_follow_message(link_message_t *message);

/* The helper cannot append to the state file: ask the log for a snapshot. */
void edge_follow_want_all(void);
/* Whether the helper has the following messages on disk: only revisions that it has are
 * acknowledged. */
void edge_follow_set_kept(ngx_uint_t kept);

/* Send a hello with a new mark. Messages that come before its answer are ignored. */
void edge_follow_hello(void);

/* Send the last hello once more, with the same mark: an answer to either of them counts. */
void edge_follow_hello_again(void);

/* At each beat: say hello to a log that is silent, and ask for everything where that is wanted. */
void edge_follow_beat(void);

/* Begin to measure how long the config log has been silent. */
void edge_follow_listen(void);

/* ---- for edge_sync.c, which waits until the log has said what is in force ---- */

/* Distrust the log's messages, which may be outdated, until it has answered the next hello. */
void edge_follow_doubt(void);
/* Trust the log's messages again. */
void edge_follow_trust(void);

/* edge_sync.c begins to wait until the log has confirmed the revision. */
void edge_follow_expect(void);
/* That wait has ended: the log has confirmed it, or time ran out. */
void edge_follow_expected(void);

/* Has the log said since the wait began that the revision in force here is its newest? */
ngx_uint_t edge_follow_is_synced(void);

/* Did time run out in the last wait, and did nothing come from the log since? */
ngx_uint_t edge_follow_is_absent(void);

/* Did a part of a large message come within the last since_ms milliseconds? */
ngx_uint_t edge_follow_is_receiving(ngx_msec_t since_ms);
