/* The names of the fields of a traffic event. Its producer sends them once in each batch, and the
 * events behind them are values without names (proto/WIRE.md, "Events"), because writing the same
 * names for every request would cost time on the request path. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct layout layout_t;

/* Parse a batch's layout record. 0 | -EBADMSG | -ENOMEM. */
int layout_new(layout_t **ret_layout, const void *text, size_t len);
void layout_destroy(layout_t **layout);

/* Was the layout made of this text? */
bool layout_is(const layout_t *self, const void *text, size_t len);

/* The event type, without a NUL at its end. */
const char *layout_topic(const layout_t *self, size_t *ret_len);

/* Append to out the envelope of an event with these values: msgpack that unpack_json accepts. 0 |
 * -EBADMSG: out has a part of it. */
int layout_envelope(layout_t *self, const void *values, size_t len, msgpack_sbuffer *out);
