/* The members of a JSON text that is one object (RFC 8259), read strictly: what is no JSON from its
 * first byte to its last has none. An application must not find something else in a text than what
 * was verified, so no other reading of it is left over: no second member of a name that counts, no
 * text behind the object, no bytes that are not UTF-8. In time that is linear in its length. */
#pragma once

#include "services/edge/modules/webhook.h"

enum { WEBHOOK_JSON_DEPTH_MAX = 16 };

/* name: the characters between the quotes, escapes as they are; value: as it stands there, with its
 * quotes where it is a string. False ends the reading. */
typedef bool (*webhook_member_fn)(void *arg, webhook_text_t name, webhook_text_t value);

/* Calls on_member for each member in order. False: it is no such text, or on_member ended it; what
 * it was called with before counts for nothing then. */
bool webhook_members_read(webhook_text_t json, webhook_member_fn on_member, void *arg);

/* The characters that a string's escapes and others stand for, in parts, without memory. The string
 * is one that webhook_members_read has read, without its quotes. False: a surrogate stands
 * alone. */
bool webhook_string_decode(webhook_text_t string,
                           void (*add)(void *arg, const void *bytes, size_t len), void *arg);
