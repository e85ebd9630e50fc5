/* Notifications of PostgreSQL with a seal. Every user of a database may notify on every channel,
 * under any name, so each notification proves with a keyed hash that a copy of this service sent
 * it, in this session of the database. The key comes from the master key. */
#pragma once

#include "common/store/pg.h"
#include "common/base/secret.h"

#include <stdbool.h>
#include <stdint.h>

enum { NOTES_MAC_HEX = 64, NOTES_SEAL_BYTES = NOTES_MAC_HEX + 9 /* ,"mac":"" */ };

/* Keys of HMAC-SHA256 (RFC 2104): the key itself, and the key with the inner and the outer pad, as
 * literals of bytea. */
typedef struct notes_key {
    unsigned char key[32];
    char inner[2 * 64 + 3], outer[2 * 64 + 3];
} notes_key_t;

/* Derive the keys from the master key. */
void notes_key_init(notes_key_t *self, const secret_key_t *master);

/* SQL that notifies on a channel. text is a JSON object that is not empty; all arguments are SQL
 * expressions of type text. PostgreSQL makes the hash, because only it knows the revision of a
 * change. */
#define NOTES_NOTIFY(channel, text, inner, outer)                                                  \
    "pg_notify(" channel ", left(" text ", -1) || ',\"mac\":\"' || encode(sha256(" outer           \
    "::bytea || sha256(" inner "::bytea || convert_to(pg_backend_pid() || ' ' || " channel         \
    " || ' ' || " text ", 'UTF8'))), 'hex') || '\"}')"

/* Is the seal right? Then extra is the text without the seal. Else the notification is to be
 * ignored, and is counted. */
bool notes_open(const notes_key_t *self, PGnotify *note);

/* Sessions that notes_is_own looked at a moment ago. */
typedef struct notes_sessions {
    struct {
        int pid;
        int64_t ms;
    } seen[16];
    unsigned next;
} notes_sessions_t;

/* Does the session that notified belong to our own role, or has it ended? Process numbers are
 * reused: another user could wait until it gets the number of one of our sessions and replay a
 * notification. 1: yes | 0: no | PG_*. */
int notes_is_own(notes_sessions_t *self, pg_t *pg, const PGnotify *note, int64_t now_ms);

/* Count and log a sealed notification that cannot be read, or is a repetition. */
void notes_refuse(const PGnotify *note, const char *why);

/* How many notifications were refused; from any thread. */
int64_t notes_refused(void);
