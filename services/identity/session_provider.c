/* What sessions are found by that a provider ends: its client, and its own session. */
#include "common/base/cleanup.h"
#include "services/identity/session.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* Of texts with line feeds behind them, which none of them has. */
static void hash_lines(const char *const texts[], size_t count, char out[WORDS_HEX_SIZE])
{
    crypto_hash_sha256_state state;
    unsigned char hash[WORDS_HASH_BYTES];

    crypto_hash_sha256_init(&state);
    for (size_t i = 0; i < count; i++) {
        crypto_hash_sha256_update(&state, (const unsigned char *)texts[i], strlen(texts[i]));
        crypto_hash_sha256_update(&state, (const unsigned char *)"\n", 1);
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(out, WORDS_HEX_SIZE, hash, sizeof(hash));
}

void session_client_hash(const char *account, const char *issuer, const char *client_id,
                         char out[WORDS_HEX_SIZE])
{
    hash_lines((const char *const[]){account, issuer, client_id}, 3, out);
}

void session_provider_hash(const char *client_hash, const char *provider_session,
                           char out[WORDS_HEX_SIZE])
{
    *out = '\0';
    if (*provider_session)
        hash_lines((const char *const[]){client_hash, provider_session}, 2, out);
}

/* ---- SAML ---- */

void session_saml_client(const char *account, const char *issuer, const char *route,
                         char out[WORDS_HEX_SIZE])
{
    hash_lines((const char *const[]){account, issuer, "saml", route}, 4, out);
}

void session_saml_name(const char *client, const char *name, char out[WORDS_HEX_SIZE])
{
    hash_lines((const char *const[]){client, "name", name}, 3, out);
}

void session_saml_index(const char *client, const char *name, const char *index,
                        char out[WORDS_HEX_SIZE])
{
    *out = '\0';
    if (*index)
        hash_lines((const char *const[]){client, "index", name, index}, 4, out);
}

/* The SessionIndex of a person is in what the session keeps for a logout of ours. */
static void saml_hashes(const sealed_t *sealed, const person_t *person, char client[WORDS_HEX_SIZE],
                        char provider[WORDS_HEX_SIZE])
{
    const char *kept = person->session_at_provider ? person->session_at_provider : "";
    _cleanup_(json_clear_ref) json_t *session = json_loads(kept, 0, NULL);
    const char *index = json_string_value(json_object_get(session, "session_index"));

    session_saml_client(sealed->account, person->provider_url, sealed->route, client);
    session_saml_index(client, person->id, index ? index : "", provider);
}

/* ---- both ---- */

void session_provider_hashes(const sealed_t *sealed, const person_t *person,
                             char client[WORDS_HEX_SIZE], char provider[WORDS_HEX_SIZE])
{
    const char *id = json_string_value(json_object_get(sealed->config, "client_id"));

    *client = *provider = '\0';
    if (!strcmp(sealed->module, "saml") && person->provider_url && person->id)
        saml_hashes(sealed, person, client, provider);
    if (strcmp(sealed->module, "oidc") || !id || !person->provider_url)
        return;
    session_client_hash(sealed->account, person->provider_url, id, client);
    session_provider_hash(client, person->session_at_provider ? person->session_at_provider : "",
                          provider);
}

bool session_is_of_client(const session_t *self, const sealed_t *sealed)
{
    char client[WORDS_HEX_SIZE], provider[WORDS_HEX_SIZE];

    session_provider_hashes(sealed, &self->person, client, provider);
    return !*self->client || words_equal(self->client, client);
}

void session_person_hash(const char *account, const person_t *person, char out[WORDS_HEX_SIZE])
{
    const char *form = person->name_form;

    hash_lines((const char *const[]){account, person->provider_name, person->provider_url,
                                     person->id, form ? form : ""},
               form && *form ? 5 : 4, out);
}

void session_sidless_hash(const char *account, const person_t *person, char out[WORDS_HEX_SIZE])
{
    hash_lines((const char *const[]){account, person->provider_name, person->provider_url,
                                     person->id, "", "any session"},
               6, out);
}

int session_lock_person(crud_t *crud, const char *person_hash)
{
    return pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended($1, 21))", 1,
                   person_hash);
}

int session_end_person(crud_t *crud, const char *person_hash)
{
    int r = session_lock_person(crud, person_hash);

    return r ? r
             : pg_exec(crud->pg, NULL,
                       "INSERT INTO sign_in_ended (person_hash, ended_at) "
                       "VALUES ($1, clock_timestamp()) ON CONFLICT (person_hash) "
                       "DO UPDATE SET ended_at = excluded.ended_at",
                       1, person_hash);
}

static int check_hash(crud_t *crud, const char *person_hash, const char *proven_at)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = session_lock_person(crud, person_hash);

    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM sign_in_ended "
                    "WHERE person_hash = $1 AND ended_at >= $2::timestamptz",
                    2, person_hash, proven_at);
    if (r)
        return r;
    return PQntuples(res) ? ERR_SIGN_IN_CODE : 0;
}

int session_check_person(crud_t *crud, const char *account, const person_t *person,
                         const char *proven_at)
{
    person_t any = *person; /* borrows what the person owns */
    char hash[WORDS_HEX_SIZE];
    int r;

    any.name_form = NULL;
    session_person_hash(account, &any, hash);
    r = check_hash(crud, hash, proven_at);
    if (!r && person->name_form && *person->name_form) {
        session_person_hash(account, person, hash);
        r = check_hash(crud, hash, proven_at);
    }
    if (!r && words_equal(person->provider_name, "oidc") && !person->session_at_provider) {
        session_sidless_hash(account, person, hash);
        r = check_hash(crud, hash, proven_at);
    }
    return r;
}

int session_lock_provider(crud_t *crud, const char *provider_hash)
{
    return *provider_hash
               ? pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended($1, 20))",
                         1, provider_hash)
               : 0;
}

/* A logout of the name, or of the session at the provider that it is of, makes void what the
 * provider vouched for no later, as far as the name is of the form that it was for. Both times are
 * of the provider's clock. */
static int check_saml(crud_t *crud, const person_t *person, const char *client,
                      const char *provider)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char name[WORDS_HEX_SIZE], vouched[24];
    int r;

    session_saml_name(client, person->id, name);
    snprintf(vouched, sizeof(vouched), "%" PRId64, person->vouched_ms);
    r = session_lock_provider(crud, name);
    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM sign_in_logout WHERE provider_hash IN ($1, $2) "
                    "AND provider_hash > '' AND before_ms >= $3::bigint "
                    "AND (name_form IS NULL OR $4 = '' OR $4 LIKE name_form) LIMIT 1",
                    4, name, provider, vouched, person->name_form ? person->name_form : "");
    if (r)
        return r;
    return PQntuples(res) ? ERR_SIGN_IN_CODE : 0;
}

/* A logout token of the session at the provider makes void what the provider vouched for until the
 * token was carried out, both by our clock, in whole milliseconds. Versions that noted no time made
 * all void that came while the token was remembered: their rows do so still. */
static int check_oidc(crud_t *crud, const char *provider, const char *proven_at)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = session_lock_provider(crud, provider);

    if (!r)
        r = pg_exec(crud->pg, &res,
                    "SELECT 1 FROM sign_in_logout WHERE provider_hash = $1 AND (before_ms < "
                    "floor(1000 * extract(epoch FROM $2::timestamptz))) IS NOT TRUE LIMIT 1",
                    2, provider, proven_at);
    if (r)
        return r;
    return PQntuples(res) ? ERR_SIGN_IN_CODE : 0;
}

int session_check_provider(crud_t *crud, const sealed_t *sealed, const person_t *person,
                           const char *proven_at)
{
    char client[WORDS_HEX_SIZE], provider[WORDS_HEX_SIZE];

    session_provider_hashes(sealed, person, client, provider);
    if (*client && !strcmp(sealed->module, "saml"))
        return check_saml(crud, person, client, provider);
    return *provider ? check_oidc(crud, provider, proven_at) : 0;
}
