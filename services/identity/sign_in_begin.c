/* sign_in.begin and sign_in.login: on the way to the provider. */
#include "common/base/cleanup.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *text_of(const request_t *request, const char *key)
{
    return json_string_value(json_object_get(request->body, key));
}

/* ---- begin ---- */

static int begin_ticket(const sealed_t *sealed, const request_t *request, problem_t *problem,
                        char nonce[WORDS_TOKEN_LEN + 1], ticket_t *out)
{
    const char *host = text_of(request, "host"), *given = text_of(request, "nonce");

    if (!words_is_host(host))
        return problem_add(problem, ERR_INVALID_FIELD, "host",
                           "must be a host name in lower case, with or without a port");
    if (words_is_token(given, WORDS_TOKEN_LEN))
        memcpy(nonce, given, WORDS_TOKEN_LEN + 1);
    else
        words_token(nonce);
    *out = (ticket_t){.expires_s = time(NULL) + STATE_SECONDS,
                      .force = json_is_true(json_object_get(request->body, "force"))};
    snprintf(out->route, sizeof(out->route), "%s", sealed->route);
    snprintf(out->host, sizeof(out->host), "%s", host);
    snprintf(out->target, sizeof(out->target), "%s", words_target(text_of(request, "target")));
    words_hex(nonce, out->nonce_hash);
    return 0;
}

int on_sign_in_begin(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(sealed_done) sealed_t sealed;
    _cleanup_(free_mem) char *text = NULL;
    char nonce[WORDS_TOKEN_LEN + 1];
    ticket_t ticket;
    int r = sealed_open_place(&sealed, sign_in_key(crud), request->body, &reply->problem);

    if (!r)
        r = sealed_check_engine(&sealed, &reply->problem);
    if (!r)
        r = begin_ticket(&sealed, request, &reply->problem, nonce, &ticket);
    if (!r && !(text = ticket_seal(crud->key, &ticket)))
        r = -ENOMEM;
    if (r)
        return r;
    reply->body = json_pack("{s:o, s:s}", "location",
                            json_sprintf("%s/login?t=%s.%s", sign_in_url(), sealed.route, text),
                            "nonce", nonce);
    return reply->body ? 0 : -ENOMEM;
}

/* ---- login ---- */

/* Open the ticket, and begin the engine's flow. */
static int begin_login(crud_t *crud, const request_t *request, problem_t *problem, run_t **ret_run)
{
    _cleanup_(run_free) run_t *run = run_new();
    char state[ID_MAX + WORDS_STATE_LEN + 2];
    int64_t now = time(NULL);
    int r = sealed_open(&run->sealed, sign_in_key(crud), request->body, problem);

    if (!r)
        r = sealed_check_engine(&run->sealed, problem);
    if (!r)
        r = ticket_open(crud->key, text_of(request, "ticket"), now, &run->flow.ticket);
    if (!r && !words_equal(run->flow.ticket.route, run->sealed.route))
        r = ERR_SIGN_IN_STATE;
    if (r)
        return r;
    words_state(run->flow.state);
    words_token(run->flow.verifier);
    words_token(run->flow.nonce);
    snprintf(state, sizeof(state), "%s.%s", run->sealed.route, run->flow.state);
    r = run_start(run, PROVIDER_BEGIN,
                  &(provider_ask_t){.state = state,
                                    .nonce = run->flow.nonce,
                                    .verifier = run->flow.verifier,
                                    .force = run->flow.ticket.force});
    if (!r)
        *ret_run = take(run);
    return r;
}

static int finish_login(crud_t *crud, run_t *run, reply_t *reply)
{
    _cleanup_(free_mem) char *cookie = NULL;

    run->flow.ticket.asked_ms = bus_now_ms();
    run->flow.ticket.expires_s = run->flow.ticket.asked_ms / 1000 + STATE_SECONDS;
    cookie = flow_seal(crud->key, &run->flow);
    reply->body = cookie ? run_way_on(run) : NULL;
    if (!reply->body || json_object_set_new(reply->body, "cookie", json_string(cookie))
        || json_object_set_new(reply->body, "flow", json_stringn(run->flow.state, STATE_NAME_LEN)))
        return -ENOMEM;
    return 0;
}

int on_sign_in_login(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *answer;
    run_t *run = crud_resumed(crud, &answer);
    int r = 0;

    if (!run) {
        r = begin_login(crud, request, &reply->problem, &fresh);
        run = fresh;
    }
    if (!r)
        r = run_advance(crud, run, fresh ? &fresh : &run, answer);
    if (!r)
        r = run_refusal(run, &reply->problem);
    return r ? r : finish_login(crud, run, reply);
}
