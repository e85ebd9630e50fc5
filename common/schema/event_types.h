/* Event types: proto/events.def, and the audit events of proto/kinds.def. */
#pragma once

#include "common/schema/schema.h"

/* Is this a known event type, and is it a traffic event? False: unknown. */
bool event_type_known(const char *type, bool *ret_traffic);

/* Is this a traffic event, of this or another version: a name of proto/events.def, ".v" and
 * digits? */
bool event_type_is_traffic(const char *type, size_t len);

/* May the service send events of this type? Those of its own kinds, in any version, and types
 * unknown to proto/, which a newer service may have; but none with the prefix of traffic events or
 * of another service's kinds, because subscriptions are by prefix. */
bool event_type_is_of(const char *type, const char *service);

/* The names of all fields of a traffic event, a new reference; NULL when out of memory. */
json_t *event_fields(const char *type);

/* A field of a traffic event by its dotted name; NULL. Its flags have FILTER where a source's
 * filter may use it. */
const field_t *event_field(const char *type, const char *name);
