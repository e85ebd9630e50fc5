/* WebSocket (RFC 6455) on the server's side: the rules of a handshake's key, of the frames that a
 * client sends, and the heads of those that it gets. Knows of no connection, allocates nothing, and
 * keeps no payload but that of one control frame: messages have no limit. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Codes of close frames (RFC 6455 7.4 and the registry that it founds). */
enum {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_PROTOCOL_ERROR = 1002,
    WEBSOCKET_UNSUPPORTED = 1003,
    WEBSOCKET_BAD_TEXT = 1007,
    WEBSOCKET_FAILED = 1011,
    WEBSOCKET_RESTART = 1012
};

enum {
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_IS_CLOSE = 8,
    WEBSOCKET_IS_PING = 9,
    WEBSOCKET_IS_PONG = 10
};

enum {
    WEBSOCKET_CONTROL_MAX = 125,                     /* bytes of a control frame's payload */
    WEBSOCKET_HEAD_MAX = 10,                         /* of a frame to the client */
    WEBSOCKET_SHORT_MAX = 125,                       /* payload behind a head of 2 bytes */
    WEBSOCKET_MIDDLE_MAX = 65535,                    /* payload behind a head of 4 bytes */
    WEBSOCKET_FRAME_MAX = 2 + WEBSOCKET_CONTROL_MAX, /* a whole control frame to the client */
    WEBSOCKET_ACCEPT_LEN = 28                        /* base64 of a SHA-1 */
};

/* ---- the handshake ---- */

/* Is this the base64 of 16 bytes (RFC 6455 4.1)? */
bool websocket_key_is_valid(const char *key, size_t len);
/* Writes the value of Sec-WebSocket-Accept for a valid key (RFC 6455 4.2.2); no NUL behind it.
 * False: the digest failed. */
bool websocket_accept(const char *key, size_t len, char out[WEBSOCKET_ACCEPT_LEN]);

/* ---- from the client ---- */

typedef enum {
    WEBSOCKET_MORE,  /* all of the input was read */
    WEBSOCKET_PING,  /* a pong has the payload control, control_len */
    WEBSOCKET_CLOSE, /* code is the client's, 0: it named none. Nothing behind it is read */
    WEBSOCKET_BROKEN /* the connection fails with code. Nothing more is read */
} websocket_event_t;

/* A decoder; all zero at first. */
typedef struct websocket {
    uint64_t left;         /* bytes of the frame's payload that are still to come */
    websocket_event_t end; /* CLOSE or BROKEN has come; else MORE */
    uint16_t code;
    uint8_t head[14], head_len;
    uint8_t mask[4]; /* for the next byte of the payload */
    uint8_t control[WEBSOCKET_CONTROL_MAX], control_len;
    bool in_payload, in_message;
} websocket_t;

/* Bytes that came, from in to end. Payload of binary messages is written to out, unmasked: out may
 * stand at in, or before it, and what comes of one input is in one piece. */
typedef struct {
    const uint8_t *in, *end;
    uint8_t *out;
} websocket_input_t;

/* Reads up to the end of the input, or of the next frame that says something; moves in and out.
 * Binary messages are taken, in any number of fragments. A text is refused (1003): what stands
 * behind the edge takes bytes, and a client that says text means something else. */
websocket_event_t websocket_read(websocket_t *self, websocket_input_t *input);

/* ---- to the client ---- */

/* Writes the head of an unfragmented, unmasked frame with len bytes of payload. Returns its
 * length. */
size_t websocket_write_head(uint8_t out[WEBSOCKET_HEAD_MAX], unsigned opcode, uint64_t len);
/* Writes a whole control frame; len at most WEBSOCKET_CONTROL_MAX. Returns its length. */
size_t websocket_write_control(uint8_t out[WEBSOCKET_FRAME_MAX], unsigned opcode,
                               const void *payload, size_t len);
/* Writes a close frame, whose reason is cut to what fits; code 0: without both. Returns its
 * length. */
size_t websocket_write_close(uint8_t out[WEBSOCKET_FRAME_MAX], unsigned code, const char *reason);
