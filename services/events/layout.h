/* What the fields of a traffic event are called. Its producer says it once in every batch, and the events behind it are
 * values without names (proto/WIRE.md, "Events"): the request path is not the place to write the same words again and again. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct layout layout_t;

/* From a batch's layout record. 0 | -EBADMSG | -ENOMEM. */
int layout_new(layout_t **ret_layout, const void *text, size_t len);
void layout_destroy(layout_t **layout);

/* Was it made of this text? */
bool layout_is(const layout_t *self, const void *text, size_t len);

/* The event type; not terminated. */
const char *layout_topic(const layout_t *self, size_t *ret_len);

/* Append the envelope of an event with these values: valid msgpack that unpack_json takes. 0 | -EBADMSG (out has part of it). */
int layout_envelope(layout_t *self, const void *values, size_t len, msgpack_sbuffer *out);
