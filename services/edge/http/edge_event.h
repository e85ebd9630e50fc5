/* Format of a traffic event between edge and postern-events: the values of its fields, each behind
 * the field's number. postern-events adds the names (proto/WIRE.md, "Events"). */
#pragma once

#include "services/edge/events/edge_pack.h"

/* Numbers of the fields: those of every envelope, then the rows of proto/events.def. */
enum {
    EVENT_ID,
    EVENT_TIMESTAMP,
    EVENT_ACCOUNT_ID,
#define AUDIT(type, meaning)
#define TRAFFIC(type, meaning)
#define FIELD(event, id, name, type, flags, fallback, meaning) event##_FIELD(EVENT_##id)
#define HTTP_FIELD(id) id,
#define TCP_FIELD(id)
#include "proto/events.def"
#undef HTTP_FIELD
#undef TCP_FIELD
    EVENT_FIELDS
};

_Static_assert(EVENT_FIELDS <= 128, "a number is one byte");

/* Write a field's number, and with EVENT_BOOL and EVENT_WORD its value, without a check for room:
 * FIXED_MAX in edge_event.c includes them. */
#define EVENT_FIELD(number)        pack_fixed_byte(pk, number)
#define EVENT_BOOL(number, value)  do { EVENT_FIELD(number); pack_fixed_byte(pk, (value) ? 0xc3 : 0xc2); } while (0)
#define EVENT_WORD(number, word)   do { EVENT_FIELD(number); PACK_KEY(word); } while (0)
