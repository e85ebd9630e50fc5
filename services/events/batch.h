/* A batch of events as producers send it (proto/WIRE.md). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct batch {
    char producer[128];
    int64_t seq; /* of its last event */
    int64_t count;
    int64_t dropped; /* given up by the producer since its last batch */
    bool audit;
    bool oldest; /* the producer has none before it that waits for an answer */

    /* Where the body is when it was not sent; memory "": it was. */
    char memory[64];   /* name of the file */
    int64_t body, len; /* position and bytes */
    int64_t tail, at;  /* it is there while the number at position tail is not beyond at */
} batch_t;

typedef struct event_view {
    const char *topic;
    size_t topic_len;
    const unsigned char *body; /* msgpack envelope, not looked into */
    size_t body_len;
} event_view_t;

/* Decode and check the header frame. 0 | -EBADMSG. */
int batch_header(const void *data, size_t len, batch_t *ret_batch);

/* Next event at *offset of the body frame. 1: there is one | 0: the end | -EBADMSG. */
int batch_next(const unsigned char *data, size_t len, size_t *offset, event_view_t *ret_event);

/* The body holds exactly count events. Envelopes are not looked into: nothing here decodes traffic
 * events, and who decodes audit events checks them then. 0 | -EBADMSG. */
int batch_check(const unsigned char *data, size_t len, int64_t count);

/* The events of an audit batch, all or none: objects with event_id, event_type and account_id, and nothing that
 * PostgreSQL's jsonb cannot hold. 0 | -EBADMSG. */
int batch_audit(const unsigned char *data, size_t len, json_t **ret_events);
