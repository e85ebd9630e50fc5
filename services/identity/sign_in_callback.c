/* sign_in.callback: back from the provider. What it vouches for becomes a code of 30 s, which
 * only the browser that began can redeem, at the host where it began. */
#include "common/base/cleanup.h"
#include "services/identity/rules.h"
#include "services/identity/saml.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_code.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WHY_SIZE = 200 };

static const char *text_of(const request_t *request, const char *key)
{
    return json_string_value(json_object_get(request->body, key));
}

/* Did the provider's answer come to where its provider sends answers? One that came elsewhere is
 * another provider's, and its code is not for this one's ears (RFC 9700 4.4). */
static bool is_in_place(const request_t *request, const run_t *run)
{
    const char *at = text_of(request, "at");
    char place[RUN_PLACE_SIZE];

    run_callback_place(&run->sealed, place);
    return words_equal(at ? at : "", place);
}

static int refuse_state(const run_t *run, problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SIGN_IN_STATE, NULL, "%s (route %s)", why, run->sealed.route);
}

/* A response that nobody asked for, where the route takes such: it begins a flow here and now, of
 * no browser, because the provider sends any. The state is where it leads, on the route. 0 |
 * ERR_SIGN_IN_STATE. */
static int begin_unsolicited(const request_t *request, run_t *run, problem_t *problem)
{
    const char *state = text_of(request, "state"), *host = text_of(request, "host");
    const char *home = text_of(request, "home"), *target;
    ticket_t *ticket = &run->flow.ticket;

    if (!words_is_host(host))
        return ERR_SIGN_IN_STATE;
    if (!json_is_true(json_object_get(run->sealed.config, "allow_idp_initiated")))
        return refuse_state(run, problem,
                            "nobody asked for this response here, and allow_idp_initiated is off");
    target = saml_target(state ? state : "", host, home ? home : "");
    if (!target)
        return refuse_state(run, problem,
                            "nobody asked for this response here, and its RelayState is no path of "
                            "the route, and no URL at a host of its edge");
    snprintf(ticket->route, sizeof(ticket->route), "%s", run->sealed.route);
    snprintf(ticket->host, sizeof(ticket->host), "%s", host);
    snprintf(ticket->target, sizeof(ticket->target), "%s", words_target(target));
    return 0;
}

/* A state that could be of a flow is never taken for anything else. */
static bool is_unsolicited(const request_t *request, const run_t *run)
{
    char route[ID_MAX], state[WORDS_STATE_LEN + 1];

    return !strcmp(run->sealed.module, "saml")
           && !words_split_state(text_of(request, "state"), route, state);
}

/* The flow that the state names, out of this browser's cookie. The state's route, the flow's and
 * the sealed module's are one. 0 | ERR_SIGN_IN_STATE | -ENOMEM. */
static int take_flow(crud_t *crud, const request_t *request, run_t *run, problem_t *problem)
{
    char route[ID_MAX], state[WORDS_STATE_LEN + 1];
    int r;

    if (!is_in_place(request, run))
        return ERR_SIGN_IN_STATE;
    if (is_unsolicited(request, run))
        return begin_unsolicited(request, run, problem);
    if (!words_split_state(text_of(request, "state"), route, state)
        || !words_equal(route, run->sealed.route))
        return ERR_SIGN_IN_STATE;
    r = flow_open(crud->key, text_of(request, "cookie"), time(NULL), route, state, &run->flow);
    return r == ERR_SIGN_IN_STATE
               ? refuse_state(run, problem,
                              "this browser has begun no such sign-in, or its cookie is gone, or "
                              "too old")
               : r;
}

static int begin_callback(crud_t *crud, const request_t *request, problem_t *problem,
                          run_t **ret_run)
{
    _cleanup_(run_free) run_t *run = run_new();
    const json_t *params = json_object_get(request->body, "params");
    int max, r = sealed_open(&run->sealed, sign_in_key(crud), request->body, problem);

    if (!r)
        r = sealed_check_engine(&run->sealed, problem);
    if (!r) {
        max = strcmp(run->sealed.module, "saml") ? WORDS_PARAMS_MAX : WORDS_SAML_MAX;
        if (!words_are_params(params, (size_t)max))
            r = problem_add(problem, ERR_SIGN_IN_PROVIDER, NULL,
                            "the provider's answer has more than %d bytes, or is no text", max);
    }
    if (!r)
        r = take_flow(crud, request, run, problem);
    if (!r)
        r = run_start(run, PROVIDER_CALLBACK,
                      &(provider_ask_t){.state = text_of(request, "state"),
                                        .nonce = *run->flow.nonce ? run->flow.nonce : NULL,
                                        .verifier = run->flow.verifier,
                                        .force = run->flow.ticket.force,
                                        .asked_s = run->flow.ticket.asked_ms / 1000,
                                        .params = params});
    if (!r)
        *ret_run = take(run);
    return r;
}

/* The provider vouches: may this person enter? Then there is a code. */
static int finish_callback(crud_t *crud, run_t *run, reply_t *reply)
{
    _cleanup_(person_done) person_t person = {0};
    char why[WHY_SIZE] = "", code[WORDS_TOKEN_LEN + 1];
    int r;

    run->sealed.engine->person(run->engine_flow, &person);
    if (!sign_in_admits(run->sealed.module, run->sealed.config, &person, why, sizeof(why)))
        return problem_add(&reply->problem, ERR_SIGN_IN_DENIED, NULL, "%s (route %s)", why,
                           run->sealed.route);
    r = sign_in_code_make(crud, run, &person, code);
    if (r == ERR_SIGN_IN_PROVIDER)
        return problem_add(&reply->problem, r, NULL,
                           "this answer of the provider was used before (route %s)",
                           run->sealed.route);
    if (r)
        return r;
    reply->body = json_pack("{s:o}", "location",
                            json_sprintf("https://%s/auth/done?code=" SIGN_IN_CODE_MARK "%s",
                                         run->flow.ticket.host, code));
    return reply->body ? 0 : -ENOMEM;
}

int on_sign_in_callback(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *answer;
    run_t *run = crud_resumed(crud, &answer);
    int r = 0;

    if (!run) {
        r = begin_callback(crud, request, &reply->problem, &fresh);
        run = fresh;
    }
    if (!r)
        r = run_advance(crud, run, fresh ? &fresh : &run, answer);
    if (!r)
        r = run_refusal(run, &reply->problem);
    return r ? r : finish_callback(crud, run, reply);
}
