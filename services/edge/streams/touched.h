/* Finds the open streams that a change of the configuration may end, as keys of the registry: a
 * stream with none of these keys is not affected. */
#pragma once

#include "services/edge/streams/registry.h"
#include "services/edge/table/table.h"

typedef void (*touched_fn)(const stream_key_t *key);

/* Like table_apply, and calls touched for each key; NULL: the table is not in force. */
int touched_apply(table_t *table, const char *kind, size_t kind_len, const char *id, size_t id_len,
                  const msgpack_object *document, trust_t trust, touched_fn touched);
