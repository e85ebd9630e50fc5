/* Notifications of PostgreSQL that count: every user of a database may notify on every channel, under any name, so each says with a
 * keyed hash that a copy of this service made it, in this session of the database. The key comes from the master key. */
#pragma once

#include "common/store/pg.h"
#include "common/base/secret.h"

#include <stdbool.h>
#include <stdint.h>

enum { NOTES_MAC_HEX = 64, NOTES_SEAL_BYTES = NOTES_MAC_HEX + 9 /* ,"mac":"" */ };

/* Keys of HMAC-SHA256 (RFC 2104): as it is, and with the inner and the outer pad as literals of bytea. */
typedef struct notes_key {
    unsigned char key[32];
    char inner[2 * 64 + 3], outer[2 * 64 + 3];
} notes_key_t;

void notes_key_init(notes_key_t *self, const secret_key_t *master);

/* SQL: notify on a channel a text that is a JSON object with something in it; all are expressions, of the type text. PostgreSQL itself
 * makes the hash, because only it knows what a change's revision will be. */
#define NOTES_NOTIFY(channel, text, inner, outer)                                                  \
    "pg_notify(" channel ", left(" text ", -1) || ',\"mac\":\"' || encode(sha256(" outer           \
    "::bytea || sha256(" inner "::bytea || convert_to(pg_backend_pid() || ' ' || " channel         \
    " || ' ' || " text ", 'UTF8'))), 'hex') || '\"}')"

/* Is it one of this service? Then extra is the text again; else it counts for nothing, and is counted. */
bool notes_open(const notes_key_t *self, PGnotify *note);

/* Sessions that were looked at a moment ago. */
typedef struct notes_sessions {
    struct {
        int pid;
        int64_t ms;
    } seen[16];
    unsigned next;
} notes_sessions_t;

/* Is the session that notified one of our own role, or over? The system gives a number again: what one of ours said once another
 * user could say again, who waited until a session of his own has its number. 1: it is | 0 | PG_*. */
int notes_is_own(notes_sessions_t *self, pg_t *pg, const PGnotify *note, int64_t now_ms);

/* One that cannot be read, or was said before, though it is one of this service. */
void notes_refuse(const PGnotify *note, const char *why);

/* How many were refused. Any thread. */
int64_t notes_refused(void);
