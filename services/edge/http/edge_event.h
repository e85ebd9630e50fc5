/* A traffic event as the edge leaves it: the values of its fields, each behind the field's number,
 * and nothing else. postern-events gives them their names (proto/WIRE.md, "Events"). */
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

/* The caller has set room aside for the number, and in EVENT_BOOL and EVENT_WORD for the value. */
#define EVENT_FIELD(number)        pack_fixed_byte(pk, number)
#define EVENT_BOOL(number, value)  do { EVENT_FIELD(number); pack_fixed_byte(pk, (value) ? 0xc3 : 0xc2); } while (0)
#define EVENT_WORD(number, word)   do { EVENT_FIELD(number); PACK_KEY(word); } while (0)
