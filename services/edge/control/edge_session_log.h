/* A worker's conversation with the session log of postern-identity (proto/WIRE.md): which sessions
 * have ended. A deletion is acknowledged when its session was given to ended() and the open streams
 * that it admitted were judged. Nothing of this log is kept on disk: a worker that begins has
 * everything that it knows of sessions in doubt.
 *
 * Each worker of an edge follows by itself, and each calls the handlers, also where what they
 * change is shared by the workers. */
#pragma once

#include "services/edge/control/edge_logs.h"

/* ended: the session with this hash (SHA-256 of its cookie's value) is gone. An answer of
 * postern-identity that was on its way when this was called may still vouch for it: that answer
 * must not count. Called before the acknowledgement.
 * in_doubt: sessions may have ended of which this worker will not be told by name: none counts
 * until postern-identity was asked for it after this was called. A worker that is merely not in
 * touch will be told, and calls this only if it turns out that it cannot be. */
typedef struct {
    void (*ended)(const u_char hash[32]);
    void (*in_doubt)(void);
} edge_session_log_handlers_t;

/* Before edge_bus_start; copied. Without handlers the log is followed all the same. */
void edge_session_log_set(const edge_session_log_handlers_t *handlers);

/* touched: open streams of the session with this hash may have to end; NULL: of any session. It
 * tells edge_ack.c which change is to be judged. */
void edge_session_log_set_touched(void (*touched)(const u_char *hash));

/* Is this worker in touch? Then what is cached need not be asked for: whatever ended, and was
 * answered as ended, this worker has heard of. */
ngx_uint_t edge_session_log_is_current(void);

/* When this worker was last in touch, ngx_current_msec; 0: never. */
ngx_msec_t edge_session_log_touched(void);

/* ---- for the conversation ---- */

/* For edge_log. */
const edge_log_row_t *edge_session_log(void);

/* For /metrics, of any worker of this edge: is it in touch? */
ngx_uint_t edge_session_log_has_touch(ngx_uint_t worker);
