/* sign_in.saml_logout: a message of single logout that a browser brought (SAML profiles 4.4). By a
 * LogoutRequest, which the provider signed, the sessions of a name at this route end, before the
 * provider is answered; a LogoutResponse ends nothing. Anybody can bring one: nothing is stored
 * before the provider's signature is verified. */
#include "common/base/cleanup.h"
#include "services/identity/logout_once.h"
#include "services/identity/saml.h"
#include "services/identity/session.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 100, /* sessions that one transaction ends */
    /* What a request ended is remembered for as long as an assertion is good that the provider made
     * before, and its ID for as long as the request itself: neither lasts more than a day. */
    REMEMBER_S = 25 * 3600
};

/* What a verified request ends. */
typedef struct ending {
    const sealed_t *sealed;
    const saml_logout_t *said;
    char client[WORDS_HEX_SIZE], name[WORDS_HEX_SIZE], request[WORDS_HEX_SIZE];
    char text[WORDS_HEX_SIZE]; /* SHA-256 of all that the browser brought */
    char *indexes;             /* JSON: an array of hashes; empty: all sessions of the name */
} ending_t;

static void ending_done(ending_t *self)
{
    free(self->indexes);
}

/* ---- what came ---- */

static int begin_message(crud_t *crud, const request_t *request, problem_t *problem,
                         run_t **ret_run)
{
    const json_t *params = json_object_get(request->body, "params");
    const char *query = json_string_value(json_object_get(request->body, "query")), *fault, *state;
    _cleanup_(run_free) run_t *run = run_new();
    _cleanup_(json_clear_ref) json_t *message = NULL;
    char slo[RUN_URL_SIZE], nonce[WORDS_TOKEN_LEN + 1];
    int r = sealed_open_any(&run->sealed, sign_in_key(crud), request->body, problem);

    if (r)
        return r;
    if (strcmp(run->sealed.module, "saml") != 0)
        return ERR_NOT_FOUND;
    if (!query && !words_are_params(params, WORDS_SAML_MAX))
        return problem_add(problem, ERR_INVALID_FIELD, "params",
                           "must be {name: [texts]}, in at most %d bytes", WORDS_SAML_MAX);
    fault = saml_message_read(query, params, &message);
    if (fault)
        return problem_add(problem, ERR_SIGN_IN_PROVIDER, NULL, "the message is not good: %s",
                           fault);
    state = json_string_value(json_object_get(message, "relay_state"));
    run_logout_nonce(crud, state ? state : "", nonce);
    run_saml_logout_url(&run->sealed, slo);
    r = run_start(
        run, PROVIDER_ENDED,
        &(provider_ask_t){.redirect_uri = slo, .nonce = nonce, .state = state, .params = message});
    if (!r)
        *ret_run = take(run);
    return r;
}

/* ---- a LogoutRequest ---- */

/* Query or form, with RelayState and signature: a browser that loads its page again brings the same
 * to the byte. */
static int hash_message(const request_t *request, char out[WORDS_HEX_SIZE])
{
    const json_t *query = json_object_get(request->body, "query");
    _cleanup_(free_mem) char *text =
        json_dumps(query ? query : json_object_get(request->body, "params"),
                   JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);

    if (text)
        words_hex(text, out);
    return text ? 0 : -ENOMEM;
}

static int set_ending(ending_t *self, const run_t *run, const request_t *request)
{
    _cleanup_(json_clear_ref) json_t *hashes = json_array();
    json_t *index;
    char id[300];
    size_t i;

    *self = (ending_t){.sealed = &run->sealed, .said = saml_ended(run->engine_flow)};
    session_saml_client(self->sealed->account, self->said->issuer, self->sealed->route,
                        self->client);
    session_saml_name(self->client, self->said->name_id, self->name);
    snprintf(id, sizeof(id), "request\n%s", self->said->request_id);
    session_provider_hash(self->client, id, self->request);
    json_array_foreach(self->said->indexes, i, index)
    {
        char hash[WORDS_HEX_SIZE];

        session_saml_index(self->client, self->said->name_id, json_string_value(index), hash);
        json_array_append_new(hashes, json_string(hash));
    }
    self->indexes = json_dumps(hashes, JSON_COMPACT);
    return self->indexes ? hash_message(request, self->text) : -ENOMEM;
}

static int say_used(int r, problem_t *problem)
{
    return r == ERR_SIGN_IN_PROVIDER
               ? problem_add(problem, r, NULL, "the message is not good: its ID was used before")
               : r;
}

static logout_once_t once_of(const ending_t *ending)
{
    return (logout_once_t){
        .id = ending->request, .text = ending->text, .until_s = bus_now_ms() / 1000 + REMEMBER_S};
}

/* The request, and what it ended: sessions at the provider, or the name, of which forms. */
static int remember_request(crud_t *crud, const ending_t *ending)
{
    char before[24], seconds[16];

    snprintf(before, sizeof(before), "%" PRId64, ending->said->issued_ms);
    snprintf(seconds, sizeof(seconds), "%d", REMEMBER_S);
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO sign_in_logout (token_hash, provider_hash, before_ms, expires_at, "
                   "name_form, text_hash) "
                   "SELECT CASE n WHEN 1 THEN $1 ELSE $1 || ' ' || n END, hash, $4::bigint, "
                   "now() + $5::int * interval '1 s', $6, $7 FROM (SELECT hash, n FROM "
                   "jsonb_array_elements_text(CASE $3::jsonb WHEN '[]' THEN "
                   "jsonb_build_array($2::text) ELSE $3::jsonb END) "
                   "WITH ORDINALITY AS one (hash, n)) AS all_of_it ON CONFLICT DO NOTHING",
                   7, ending->request, ending->name, ending->indexes, before, seconds,
                   ending->said->name_form, ending->text);
}

/* Some of the sessions that are to end: of the name at this route, and where the request says which
 * those, and any of which the provider did not say which it is. In the order of their ids: several
 * requests may end the same ones at once. */
static int find_sessions(crud_t *crud, const ending_t *ending, PGresult **ret_res)
{
    char most[12];

    snprintf(most, sizeof(most), "%d", BATCH);
    return pg_exec(crud->pg, ret_res,
                   "SELECT s.session_id, u.id, " SESSION_SUBJECT " FROM application_user u "
                   "JOIN application_session a ON a.account_id = u.account_id "
                   "     AND a.application_user_id = u.id "
                   "JOIN sign_in_session s ON s.session_id = a.id "
                   "WHERE u.account_id = $1 AND u.provider_url = $2 AND u.provider_user_id = $3 "
                   "AND (coalesce(u.name_form, '') = '' OR u.name_form LIKE $7) "
                   "AND a.route_id = $4 AND s.module = 'saml' AND ($5::jsonb = '[]' "
                   "OR coalesce(s.provider_hash, '') = '' OR $5::jsonb ? s.provider_hash) "
                   "ORDER BY 1 LIMIT $6::int",
                   7, ending->sealed->account, ending->said->issuer, ending->said->name_id,
                   ending->sealed->route, ending->indexes, most, ending->said->name_form);
}

/* Up to BATCH of them, in a transaction; with the last ones the request is remembered, so that one
 * which did not come to its end may come again. */
static int end_some(crud_t *crud, const void *arg, reply_t *reply, bool *ret_more)
{
    const ending_t *ending = arg;
    _cleanup_(pgresult_clear) PGresult *found = NULL;
    int r = session_lock_provider(crud, ending->name);

    if (!r)
        r = find_sessions(crud, ending, &found);
    if (!r)
        r = session_end_found(crud, ending->sealed->account, "PROVIDER", found, &reply->problem);
    *ret_more = !r && PQntuples(found) == BATCH;
    return r || *ret_more ? r : remember_request(crud, ending);
}

/* Where a browser stays that is sent nowhere else; is_partly: the provider says that it has not
 * signed the person out. */
static json_t *signed_out_page(const sealed_t *sealed, bool is_partly)
{
    return json_pack("{s:o}", "location",
                     json_sprintf("%s/signed-out?state=%s.%s", sign_in_url(), sealed->route,
                                  is_partly ? "&partly=1" : ""));
}

/* One step: sessions of a name may be very many, and sign-outs of others wait for this worker. One
 * that was carried out is answered again and ends nothing: a browser loads its page anew. What
 * ended nothing waits for edges, too, as a logout token does. */
static int finish_request(crud_t *crud, run_t **run_p, const request_t *request, reply_t *reply)
{
    _cleanup_(ending_done) ending_t ending = {0};
    run_t *run = *run_p;
    bool more = false;
    int r = set_ending(&ending, run, request);

    if (!r) {
        const logout_once_t once = once_of(&ending);

        r = say_used(logout_once_step(crud, &once, end_some, &ending, reply, &more),
                     &reply->problem);
    }
    if (!r && more)
        return run_go_on(crud, run_p);
    if (!r && !reply->revision)
        r = session_answer_gone(crud, reply);
    if (r)
        return r;
    reply->body = saml_ended_answer(run->engine_flow);
    if (!reply->body)
        reply->body = signed_out_page(&run->sealed, false);
    return reply->body ? 0 : -ENOMEM;
}

/* ---- the verb ---- */

static int finish_message(crud_t *crud, run_t **run_p, const request_t *request, reply_t *reply)
{
    const saml_logout_t *said = saml_ended((*run_p)->engine_flow);

    if (said->is_request)
        return finish_request(crud, run_p, request, reply);
    reply->body = signed_out_page(&(*run_p)->sealed, !said->is_success);
    return reply->body ? 0 : -ENOMEM;
}

int on_sign_in_saml_logout(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *came;
    run_t *run = crud_resumed(crud, &came);
    int r = 0;

    if (!run) {
        r = begin_message(crud, request, &reply->problem, &fresh);
        run = fresh;
    }
    if (!r)
        r = run_advance(crud, run, fresh ? &fresh : &run, came);
    if (!r)
        r = run_refusal(run, &reply->problem);
    return r ? r : finish_message(crud, fresh ? &fresh : &run, request, reply);
}
