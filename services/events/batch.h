/* A batch of events as producers send it (proto/WIRE.md). */
#pragma once

#include "common/schema/event_memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_NUMBER_MAX EVENT_NUMBER_MAX

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

typedef enum record_kind {
    RECORD_LAYOUT, /* what the values behind it are called; no event */
    RECORD_EVENT,  /* with topic and envelope */
    RECORD_VALUES  /* an event of the last layout */
} record_kind_t;

typedef struct record {
    record_kind_t kind;
    const char *topic; /* of an event */
    size_t topic_len;
    const unsigned char *body; /* layout's text, msgpack envelope or values: not looked into */
    size_t body_len;
} record_t;

/* Decode and check the header frame. 0 | -EBADMSG, and then producer is "" unless the header names a producer, a family and a
 * number: those of who can be answered. */
int batch_header(const void *data, size_t len, batch_t *ret_batch);

/* Next record at *offset of the body frame. 1: there is one | 0: the end | -EBADMSG. */
int batch_next(const unsigned char *data, size_t len, size_t *offset, record_t *ret_record);

/* The body holds exactly count events, and a layout before the first values. What is in the events is not looked into: who
 * decodes them checks them then. 0 | -EBADMSG. */
int batch_check(const unsigned char *data, size_t len, int64_t count);

/* All of its events are traffic events, of a version that is known or not, that say no principal and no number of their own: everything
 * else is for services to send. 0 | -EBADMSG. */
int batch_traffic(const unsigned char *data, size_t len);

/* The events of an audit batch, all or none: objects with event_id, event_type and account_id, short words all of them, no number of
 * their own, and nothing that PostgreSQL's jsonb cannot hold; of a type that is the sender's to say (event_types.h), and their topic. 0 | -EBADMSG. */
int batch_audit(const batch_t *batch, const unsigned char *data, size_t len, json_t **ret_events);
