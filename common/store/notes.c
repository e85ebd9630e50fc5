#include "common/store/notes.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BLOCK = 64,
    SAID_S = 60,
    SEEN_MS = 1000 /* a process number of PostgreSQL does not come again within this time */
};

static _Atomic int64_t refused;

int64_t notes_refused(void)
{
    return refused;
}

static void write_pad(char out[2 * BLOCK + 3], const unsigned char key[32], unsigned char pad)
{
    unsigned char block[BLOCK] = {0};

    memcpy(block, key, 32);
    for (int i = 0; i < BLOCK; i++)
        block[i] ^= pad;
    memcpy(out, "\\x", 2);
    sodium_bin2hex(out + 2, 2 * BLOCK + 1, block, BLOCK);
    sodium_memzero(block, sizeof(block));
}

void notes_key_init(notes_key_t *self, const secret_key_t *master)
{
    secret_derive(master, "notifications", "", self->key);
    write_pad(self->inner, self->key, 0x36);
    write_pad(self->outer, self->key, 0x5c);
}

/* Hash the text of a notification with the session that sent it, as the server names it: repeated
 * by another session it has another hash. */
static void hash_note(const notes_key_t *self, const PGnotify *note, size_t len,
                      unsigned char out[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state;
    char head[128];
    int n = snprintf(head, sizeof(head), "%d %.64s ", note->be_pid, note->relname);

    crypto_auth_hmacsha256_init(&state, self->key, sizeof(self->key));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)head, (unsigned long long)n);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)note->extra, len);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)"}", 1);
    crypto_auth_hmacsha256_final(&state, out);
}

/* Is it sealed? The hash is over the text up to ,"mac":"…"} and without its closing brace. */
static bool is_sealed(const notes_key_t *self, PGnotify *note)
{
    static const char before[] = ",\"mac\":\"", behind[] = "\"}";
    unsigned char said[crypto_auth_hmacsha256_BYTES], is[crypto_auth_hmacsha256_BYTES];
    size_t len = strlen(note->extra), seal = strlen(before) + NOTES_MAC_HEX + strlen(behind), n;
    const char *at, *hex;

    if (len <= seal)
        return false;
    at = note->extra + len - seal;
    hex = at + strlen(before);
    if (memcmp(at, before, strlen(before)) != 0 || strcmp(hex + NOTES_MAC_HEX, behind) != 0
        || sodium_hex2bin(said, sizeof(said), hex, NOTES_MAC_HEX, NULL, &n, NULL)
        || n != sizeof(said))
        return false;
    hash_note(self, note, len - seal, is);
    if (sodium_memcmp(said, is, sizeof(is)) != 0)
        return false;
    note->extra[len - seal] = '}';
    note->extra[len - seal + 1] = '\0';
    return true;
}

bool notes_open(const notes_key_t *self, PGnotify *note)
{
    if (is_sealed(self, note))
        return true;
    notes_refuse(note, "it was not made by a copy of this service, or by an older one");
    return false;
}

static bool was_seen(const notes_sessions_t *self, int pid, int64_t now_ms)
{
    for (size_t i = 0; i < LEN(self->seen); i++)
        if (self->seen[i].pid == pid && now_ms - self->seen[i].ms < SEEN_MS)
            return true;
    return false;
}

int notes_is_own(notes_sessions_t *self, pg_t *pg, const PGnotify *note, int64_t now_ms)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char pid[16];
    int r;

    if (was_seen(self, note->be_pid, now_ms))
        return 1;
    snprintf(pid, sizeof(pid), "%d", note->be_pid);
    r = pg_exec(pg, &res,
                "SELECT FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid "
                "WHERE a.pid = $1::int AND r.rolname <> current_user",
                1, pid);
    if (r)
        return r;
    if (PQntuples(res) > 0)
        return 0;
    self->seen[self->next].pid = note->be_pid;
    self->seen[self->next].ms = now_ms;
    self->next = (self->next + 1) % LEN(self->seen);
    return 1;
}

void notes_refuse(const PGnotify *note, const char *why)
{
    static _Atomic int64_t said;
    int64_t now = time(NULL);

    refused++;
    if (said && now - said < SAID_S)
        return;
    said = now;
    log_warn("a notification on %s counts for nothing: %s (PostgreSQL's process %d)", note->relname,
             why, note->be_pid);
}
