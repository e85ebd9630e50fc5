/* A worker's conversation with the config log (proto/WIRE.md has the frames): hellos, what the
 * log says, and what follows from it. The helper carries the messages; when it dies another one
 * takes its place, and the conversation begins again. */
#pragma once

#include "services/edge/control/edge_link.h"

/* Once the table from disk is there. on_change is called when another revision is in force.
 * wants_all: the file that was read was cut, so it is to be written again. */
void edge_follow_start(void (*on_change)(void), ngx_uint_t wants_all);

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

/* For who waits until the log has said what is in force (edge_sync.c). */
/* what it said before it answers the next hello is not of its present */
void edge_follow_doubt(void);
void edge_follow_trust(void);   /* and now whatever it says is */
void edge_follow_expect(void);  /* a wait begins */
void edge_follow_expected(void);   /* and ended, in vain or not */
ngx_uint_t edge_follow_is_synced(void);   /* since it began: what is in force is what the log has */
/* the last wait was in vain, and the log was not heard since */
ngx_uint_t edge_follow_is_absent(void);
/* a part of a message came within that time */
ngx_uint_t edge_follow_is_receiving(ngx_msec_t since_ms);
