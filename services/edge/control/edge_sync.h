/* Signs of life to the config log, and the waits for it: a worker that begins, or that stood
 * still so long that changes may have been answered without it, learns what is in force before
 * it serves. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

enum { EDGE_SYNC_BEAT_MS = 250 };

/* Before the first request: the config log's news, when somebody is there to tell it. A worker
 * that took another's place must not serve what changed meanwhile. again is called when another
 * helper was started. */
void edge_sync_start(void (*again)(void));

/* A sign of life to each log, which repeats what is acknowledged. */
void edge_sync_sign(void);

/* Before the table is asked for a request or a handshake: a worker that stood still learns what
 * is in force. */
void edge_sync_check_pause(void);

/* No more: nothing is served. */
void edge_sync_stop(void);
