#include "common/store/notes.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

static void make_key(notes_key_t *key)
{
    char path[] = "/tmp/postern-notes-XXXXXX";
    secret_key_t *master = NULL;

    cr_assert_geq(close(mkstemp(path)), 0);
    unlink(path);
    cr_assert_eq(secret_key_load(&master, path), 0);
    unlink(path);
    notes_key_init(key, master);
    secret_key_destroy(&master);
}

/* As NOTES_NOTIFY has PostgreSQL do it. */
static void seal(const notes_key_t *key, int pid, const char *channel, const char *text, char *out)
{
    unsigned char pad[64], hash[32];
    char message[512], hex[65];
    crypto_hash_sha256_state state;
    int n = snprintf(message, sizeof(message), "%d %s %s", pid, channel, text);

    for (int outer = 0; outer < 2; outer++) {
        sodium_hex2bin(pad, sizeof(pad), (outer ? key->outer : key->inner) + 2, 128, NULL, NULL,
                       NULL);
        crypto_hash_sha256_init(&state);
        crypto_hash_sha256_update(&state, pad, sizeof(pad));
        crypto_hash_sha256_update(&state, outer ? hash : (unsigned char *)message,
                                  outer ? sizeof(hash) : (unsigned long long)n);
        crypto_hash_sha256_final(&state, hash);
    }
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    sprintf(out, "%.*s,\"mac\":\"%s\"}", (int)strlen(text) - 1, text, hex);
}

static bool opens(const notes_key_t *key, int pid, const char *channel, char *extra)
{
    char name[64];
    PGnotify note = {.relname = name, .be_pid = pid, .extra = extra};

    strcpy(name, channel);
    return notes_open(key, &note);
}

Test(notes, takes_what_a_copy_said_in_its_own_session)
{
    static const char text[] = "{\"revision\":17}";
    char extra[512];
    notes_key_t key;

    make_key(&key);
    seal(&key, 42, "channel", text, extra);
    cr_assert_eq(strlen(extra), strlen(text) + NOTES_SEAL_BYTES);
    cr_assert(opens(&key, 42, "channel", extra));
    cr_assert_str_eq(extra, text);
}

Test(notes, refuses_and_counts_what_somebody_else_said)
{
    static const char text[] = "{\"revision\":17}";
    char sealed[512], extra[1024];
    notes_key_t key, other;
    int64_t before = notes_refused();

    make_key(&key);
    make_key(&other);
    seal(&key, 42, "channel", text, sealed);
    cr_assert_not(opens(&key, 43, "channel", strcpy(extra, sealed)), "another session");
    cr_assert_not(opens(&key, 42, "other", strcpy(extra, sealed)), "another channel");
    cr_assert_not(opens(&other, 42, "channel", strcpy(extra, sealed)), "another key");
    cr_assert_not(opens(&key, 42, "channel", strcpy(extra, text)), "no hash");
    cr_assert_not(opens(&key, 42, "channel", strcpy(extra, "17")), "of an older copy");
    cr_assert_not(opens(&key, 42, "channel", strcpy(extra, "")));
    cr_assert_not(opens(&key, 42, "channel", strcpy(extra, sealed + 1)));
    strcpy(extra, sealed)[12] = '8';
    cr_assert_not(opens(&key, 42, "channel", extra), "another text");
    strcpy(extra, sealed)[strlen(sealed) - 3] = 'g';
    cr_assert_not(opens(&key, 42, "channel", extra), "no hexadecimal");
    cr_assert_eq(notes_refused(), before + 9);
}
