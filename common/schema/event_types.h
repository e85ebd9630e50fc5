/* The events that there are: proto/events.def and the audit events of proto/kinds.def. */
#pragma once

#include "common/schema/schema.h"

/* What an event type is; false: there is none of that name. */
bool event_type_known(const char *type, bool *ret_traffic);

/* Is this a traffic event, of this or another version: a name of proto/events.def, ".v" and
 * digits? */
bool event_type_is_traffic(const char *type, size_t len);

/* May the service say that this happened? Its own kinds, in any version, and what proto/ does
 * not know, as a newer service has it; nothing that begins as traffic events or those of another
 * service's kinds do, because subscribers name beginnings. */
bool event_type_is_of(const char *type, const char *service);

/* The names of all fields of a traffic event, a new reference; NULL when out of memory. */
json_t *event_fields(const char *type);

/* A field of a traffic event by its dotted name; NULL. Its flags have FILTER where a source's
 * filter may use it. */
const field_t *event_field(const char *type, const char *name);
