/* A worker's conversation with the config log (proto/WIRE.md has the frames): hellos, what the
 * log says, and what follows from it. The helper carries the messages; when it dies another one
 * takes its place, and the conversation begins again. */
#pragma once

#include "services/edge/control/edge_link.h"

/* Once the table from disk is there. wants_all: the file that was read was cut, so it is to be
 * written again. */
void edge_follow_start(ngx_uint_t wants_all);

/* A message of the config log. */
void edge_follow_message(link_message_t *message);

/* From the helper: the state file needs everything; and: what follows is on disk, or is not. */
void edge_follow_want_all(void);
void edge_follow_set_kept(ngx_uint_t kept);

/* Say hello: nothing that was said before it is answered counts. */
void edge_follow_hello(void);

/* Say the last hello again: what was said behind the answer to it counts. */
void edge_follow_hello_again(void);

/* At each beat: say hello to a log that is silent, and ask for everything where that is wanted. */
void edge_follow_beat(void);

/* Count the silence of the log from now on. */
void edge_follow_listen(void);

/* ---- for edge_sync.c, which waits until the log has said what is in force ---- */

/* Messages that the log sent before it answers the next hello may be outdated; and: they are not,
 * from now on. */
void edge_follow_doubt(void);
void edge_follow_trust(void);

/* A wait begins; and: it ended, in vain or not. */
void edge_follow_expect(void);
void edge_follow_expected(void);

/* Since the wait began the log has named the revision that is in force here, as its present one. */
ngx_uint_t edge_follow_is_synced(void);

/* The last wait was in vain, and the log was not heard since. */
ngx_uint_t edge_follow_is_absent(void);

/* A part of a message came within that time. */
ngx_uint_t edge_follow_is_receiving(ngx_msec_t since_ms);
