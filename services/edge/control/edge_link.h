/* Messages between a worker and its helper process, over a pair of SOCK_SEQPACKET sockets: a
 * kind and a few frames. One too large for a packet goes in several, so only one thread may
 * send. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "services/edge/control/frames.h"

enum { LINK_FRAMES_MAX = FRAMES_MAX };

typedef enum {
    LINK_READY,    /* from the helper: its sockets exist */
    LINK_CONFIG,   /* a message of the config log, either way */
    LINK_SESSIONS, /* a message of the session log, either way */
    LINK_EVENTS,   /* a message of the event intake, either way */
    LINK_BATCH,    /* header, edge_place_t: the helper sends the batch that lies there */
    LINK_SNAPSHOT, /* from the helper: the state file needs one */
    LINK_KEPT,     /* from the helper: what follows is on disk */
    LINK_UNKEPT,   /* from the helper: what follows is not */
    LINK_NOBODY,   /* from the helper: no intake took the batch */
    LINK_PING,     /* from the worker, and back as it is: the helper is alive */
    LINK_NAME,     /* number, name; and back: number, address; its port is nobody's */
    /* from the helper: edge_tickets_t, or nothing: there are no keys for session tickets */
    LINK_TICKETS,
    LINK_SIGNER,   /* signer_ask_t; and back: signer_told_t (common/codec/signer.h) */
    /* ask_head_t, a part of the question's body; and back: ask_told_t, the answer's body; see
     * ask_packet.h */
    LINK_ASK,
    LINK_ASK_THERE /* from the helper: one byte, whether a copy of postern-identity is connected */
} link_kind_t;

typedef struct {
    link_kind_t  kind;
    ngx_uint_t   n;
    ngx_str_t    frames[LINK_FRAMES_MAX];   /* valid until the next is received */
} link_message_t;

typedef struct {
    int                fd;           /* -1: closed */
    u_char            *buffer;
    size_t             used, size;
    ngx_connection_t  *connection;   /* in a worker's event loop; NULL: not there */
} link_t;

/* A link that is closed. */
#define LINK_CLOSED  { -1, NULL, 0, 0, NULL }

/* fd is the link's from now on; handler is called while there is something to receive. */
ngx_int_t link_watch(link_t *link, int fd, ngx_event_handler_pt handler,
    ngx_log_t *log);

/* NGX_OK | NGX_AGAIN: no room now, and flags are MSG_DONTWAIT | NGX_ERROR: nobody at the other
 * end, or more than PACK_BYTES_MAX; with MSG_DONTWAIT, more than one packet. */
ngx_int_t link_send(link_t *link, link_kind_t kind, const ngx_str_t *frames,
    ngx_uint_t n, int flags);
/* NGX_OK | NGX_AGAIN: none, and flags are MSG_DONTWAIT | NGX_ERROR: nobody at the other end. */
ngx_int_t link_receive(link_t *link, link_message_t *message, int flags);
void link_close(link_t *link);
