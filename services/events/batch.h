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
    int64_t seq; /* number of the batch's last event */
    int64_t count;
    int64_t dropped; /* events that the producer gave up since its last batch */
    bool audit;
    bool oldest; /* the producer waits for an answer to no older batch than this */

    /* Location of a body in shared memory; memory "": the body was sent. */
    char memory[64];   /* name of the file in the directory of setting event-memory */
    int64_t body, len; /* the body's position in the file, and its bytes */
    /* the body is valid as long as the number at position tail is not beyond at */
    int64_t tail, at;
} batch_t;

typedef enum record_kind {
    RECORD_LAYOUT, /* names for the values that follow; not an event */
    RECORD_EVENT,  /* an event: topic and envelope */
    RECORD_VALUES  /* an event: values, named by the last layout */
} record_kind_t;

typedef struct record {
    record_kind_t kind;
    const char *topic; /* topic of an event */
    size_t topic_len;
    /* text of the layout, msgpack envelope, or values; not checked here */
    const unsigned char *body;
    size_t body_len;
} record_t;

/* Decode and check the header frame. 0 | -EBADMSG. After -EBADMSG producer is "" unless the header
 * names a producer, a family and a number: then the sender can be answered. */
int batch_header(const void *data, size_t len, batch_t *ret_batch);

/* Read the next record at *offset of the body frame. 1: there is one | 0: the end | -EBADMSG. */
int batch_next(const unsigned char *data, size_t len, size_t *offset, record_t *ret_record);

/* Check that the body holds exactly count events, and a layout before the first values. The events
 * themselves are checked by who decodes them. 0 | -EBADMSG. */
int batch_check(const unsigned char *data, size_t len, int64_t count);

/* Check that all events of the body are traffic events, of a known version or not, without a
 * principal and a number of their own: anything else only a service may send. 0 | -EBADMSG. */
int batch_traffic(const unsigned char *data, size_t len);

/* Decode the events of an audit batch, all or none: objects whose event_id, event_type and
 * account_id are short words, without a number of their own, that PostgreSQL's jsonb can hold, each
 * of a type that its sender may send (event_types.h) and equal to its topic. 0 | -EBADMSG. */
int batch_audit(const batch_t *batch, const unsigned char *data, size_t len, json_t **ret_events);
