#include "services/identity/sign_in_code.h"
#include "common/base/cleanup.h"
#include "services/identity/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROVEN "code of a sign-in"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* What the row keeps, sealed: who it is by whose word, and for which browser, host and route. */
static char *seal_proven(crud_t *crud, const run_t *run, const person_t *person)
{
    const ticket_t *ticket = &run->flow.ticket;
    char source[WORDS_HEX_SIZE], place[SEALED_PLACE_SIZE], *text = NULL, *sealed = NULL;
    json_t *value;

    if (session_source(&run->sealed, source))
        return NULL;
    sealed_place(&run->sealed, place);
    value = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "place", place, "route", ticket->route,
                      "host", ticket->host, "target", ticket->target, "nonce_hash",
                      ticket->nonce_hash, "source", source, "person", person_json(person));
    text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    if (text) {
        sealed = secret_seal_for(crud->key, PROVEN, text, strlen(text));
        secret_free(&text, strlen(text));
    }
    json_decref(value);
    return sealed;
}

/* Note in the same statement that what vouches for the person was used. 0 | ERR_SIGN_IN_PROVIDER:
 * it was used before | fault. */
static int store_once(crud_t *crud, const char *hex, const char *seconds, const char *sealed,
                      const char *since, const person_t *person)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char until[24];
    int r;

    snprintf(until, sizeof(until), "%" PRId64, person->once_until_s);
    r = pg_exec(crud->pg, &res,
                "WITH seen AS (INSERT INTO sign_in_once (once_hash, expires_at) "
                "     VALUES (decode($4, 'hex'), to_timestamp($5::bigint) + interval '10 min') "
                "     ON CONFLICT DO NOTHING RETURNING 1) "
                "INSERT INTO sign_in_code (code_hash, expires_at, sealed, proven_at) "
                "SELECT decode($1, 'hex'), now() + $2::int * interval '1 s', $3, "
                "now() - $6::bigint * interval '1 ms' FROM seen RETURNING 1",
                6, hex, seconds, sealed, person->once, until, since);
    return r || PQntuples(res) ? r : ERR_SIGN_IN_PROVIDER;
}

/* How long ago the provider can have vouched. */
static int64_t vouched_ago_ms(const run_t *run, const person_t *person)
{
    int64_t now = bus_now_ms(), came = now - (bus_mono_ms() - run->began_ms);

    return now - person_proven_ms(person, run->flow.ticket.asked_ms, came);
}

int sign_in_code_make(crud_t *crud, const run_t *run, const person_t *person,
                      char out[WORDS_TOKEN_LEN + 1])
{
    _cleanup_(free_mem) char *sealed = seal_proven(crud, run, person);
    char hex[WORDS_HEX_SIZE], seconds[16], since[24];

    if (!sealed)
        return -ENOMEM;
    words_token(out);
    words_hex(out, hex);
    snprintf(seconds, sizeof(seconds), "%d", SIGN_IN_CODE_SECONDS);
    snprintf(since, sizeof(since), "%" PRId64, vouched_ago_ms(run, person));
    crud->changes = true; /* one statement by itself, without crud_begin */
    if (person->once)
        return store_once(crud, hex, seconds, sealed, since, person);
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO sign_in_code (code_hash, expires_at, sealed, proven_at) VALUES "
                   "(decode($1, 'hex'), now() + $2::int * interval '1 s', $3, "
                   "now() - $4::bigint * interval '1 ms')",
                   4, hex, seconds, sealed, since);
}

static bool is_nonce(const json_t *nonce, const char *expected)
{
    const char *text = json_string_value(nonce);
    char hash[WORDS_HEX_SIZE];

    if (!words_is_token(text, WORDS_TOKEN_LEN))
        return false;
    words_hex(text, hash);
    return words_equal(hash, expected);
}

/* Has the browser shown the nonce of that hash, among those of all that it has begun? "": the
 * provider began, and whoever it gave the code to may redeem it. */
static bool is_of_browser(const request_t *request, const char *expected)
{
    const json_t *nonces = json_object_get(request->body, "nonce"), *each;
    size_t i;
    bool found = !*expected || is_nonce(nonces, expected);

    json_array_foreach(nonces, i, each)
    {
        found = found || (i < SIGN_IN_NONCES_MAX && is_nonce(each, expected));
    }
    return found;
}

/* Is it of this browser, host and route, and of what the route asks whom now? */
static bool is_of(const json_t *value, const sealed_t *sealed, const request_t *request)
{
    const char *expected = text_of(value, "nonce_hash");
    char source[WORDS_HEX_SIZE], place[SEALED_PLACE_SIZE];

    sealed_place(sealed, place);
    return expected && is_of_browser(request, expected)
           && words_equal(text_of(request->body, "host"), text_of(value, "host"))
           && words_equal(sealed->route, text_of(value, "route"))
           && words_equal(place, text_of(value, "place")) && !session_source(sealed, source)
           && words_equal(source, text_of(value, "source"));
}

int sign_in_code_take(crud_t *crud, const sealed_t *sealed, const request_t *request, proven_t *out)
{
    const char *code = text_of(request->body, "code");
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(json_clear_ref) json_t *value = NULL;
    char hex[WORDS_HEX_SIZE], *text = NULL;
    size_t len = 0, mark = strlen(SIGN_IN_CODE_MARK);
    int r;

    *out = (proven_t){0};
    if (!code || strncmp(code, SIGN_IN_CODE_MARK, mark) != 0
        || !words_is_token(code + mark, WORDS_TOKEN_LEN))
        return ERR_SIGN_IN_CODE;
    code += mark;
    words_hex(code, hex);
    r = pg_exec(crud->pg, &res,
                "DELETE FROM sign_in_code WHERE code_hash = decode($1, 'hex') "
                "RETURNING sealed, expires_at > now(), proven_at",
                1, hex);
    if (r || !PQntuples(res) || *PQgetvalue(res, 0, 1) != 't')
        return r ? r : ERR_SIGN_IN_CODE;
    r = secret_open_for(crud->key, PROVEN, PQgetvalue(res, 0, 0), &text, &len);
    if (r)
        return r == -EBADMSG ? ERR_SIGN_IN_CODE : r; /* another master key's */
    value = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    if (!is_of(value, sealed, request)
        || !person_read(&out->person, json_object_get(value, "person")))
        return ERR_SIGN_IN_CODE;
    snprintf(out->proven_at, sizeof(out->proven_at), "%s", PQgetvalue(res, 0, 2));
    snprintf(out->target, sizeof(out->target), "%s", words_target(text_of(value, "target")));
    return 0;
}

void proven_done(proven_t *self)
{
    person_done(&self->person);
}
