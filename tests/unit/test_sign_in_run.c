/* A verb that drives an engine: each step asks what the engine wants, for the account of the sealed
 * module, and nothing of it stays behind. The engine here answers as the test says. */
#include "common/base/cleanup.h"
#include "common/resource/crud.h"
#include "services/identity/engines.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int flows; /* that are not freed */

typedef struct toy {
    provider_step_t end;
    char *headers[2];
    unsigned status; /* of the answer that came */
    json_int_t more; /* requests that it makes yet */
    unsigned answers;
    char state[80];
} toy_t;

static int toy_start(void **ret_flow, int operation, const provider_ask_t *ask)
{
    toy_t *toy = calloc(1, sizeof(*toy));

    (void)operation;
    toy->end = (provider_step_t)json_integer_value(json_object_get(ask->config, "end"));
    toy->more = json_integer_value(json_object_get(ask->config, "more"));
    snprintf(toy->state, sizeof(toy->state), "%s", ask->state ? ask->state : "");
    *ret_flow = toy;
    flows++;
    return 0;
}

static provider_step_t toy_next(void *flow, const fetched_t *answer, fetch_t *out)
{
    toy_t *toy = flow;

    if (!answer) {
        *out = (fetch_t){.method = "GET", .url = "https://issuer.test/keys", .max_bytes = 1000};
        return PROVIDER_FETCH;
    }
    toy->status = answer->status;
    toy->answers++;
    if (toy->more-- > 0) {
        *out = (fetch_t){.method = "GET", .url = "https://issuer.test/userinfo", .least_ms = 7};
        return PROVIDER_FETCH;
    }
    return toy->end;
}

static const char *toy_why(void *flow)
{
    (void)flow;
    return "the toy says so";
}

static void toy_free(void **flow_p)
{
    flows -= *flow_p != NULL;
    free(*flow_p);
    *flow_p = NULL;
}

static const provider_t toy = {
    .module = "toy", .start = toy_start, .next = toy_next, .why = toy_why, .free = toy_free};

/* In place of the service's. */
const provider_t *engine_find(const char *module)
{
    return strcmp(module, "toy") ? NULL : &toy;
}

static secret_key_t *a_key(void)
{
    char folder[] = "/tmp/postern-run-XXXXXX", file[64];
    secret_key_t *key;

    cr_assert(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/key", folder);
    cr_assert_eq(secret_key_load(&key, file), 0);
    unlink(file);
    rmdir(folder);
    return key;
}

/* The body of a request with that module, sealed under the key. */
static json_t *body_of(const secret_key_t *key, const char *text)
{
    char *sealed = secret_seal_for(key, SIGN_IN_SEALED, text, strlen(text));
    json_t *body = json_pack("{s:s}", "sealed", sealed);

    free(sealed);
    return body;
}

#define SEALED(module, end)                                                                        \
    "{\"route\": \"edghtsrt_1\", \"account\": \"ac_1\", \"edge\": \"edghts_1\", \"module\": "      \
    "\"" module "\", \"config\": {\"end\": " end "}}"

static run_t *a_run(const secret_key_t *key, const char *text)
{
    _cleanup_(json_clear_ref) json_t *body = body_of(key, text);
    run_t *run = run_new();
    problem_t problem = {0};

    cr_assert_eq(sealed_open(&run->sealed, key, body, &problem), 0);
    cr_assert_eq(sealed_check_engine(&run->sealed, &problem), 0);
    cr_assert_eq(run_start(run, PROVIDER_CALLBACK, &(provider_ask_t){.state = "a state"}), 0);
    return run;
}

Test(sign_in_run, the_provider_is_asked_for_the_account_of_the_sealed_module)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    request_t request = {.account = "ac_said_by_the_edge", .deadline_ms = bus_mono_ms() + 60000};
    wait_t *wait = wait_new();
    crud_t crud = {.wait = wait, .request = &request};
    run_t *run = a_run(key, SEALED("toy", "1")), *fresh = run;
    const wait_answer_t *answer;
    problem_t problem = {0};

    cr_assert_eq(run_advance(&crud, run, &fresh, NULL), VERB_WAITS);
    cr_assert_null(fresh, "it lies with the request");
    cr_assert_str_eq(wait->owner, "ac_1");
    cr_assert_str_eq(wait->fetch.url, "https://issuer.test/keys");
    cr_assert_not(wait->fetch.may_be_plain);
    cr_assert_eq(wait->fetch.redirects, 0);
    cr_assert_eq(wait->fetch.max_bytes, 1000);
    wait_take_end(wait, OUTBOUND_CONNECT, "refused");
    wait->answer.status = 204;
    cr_assert_eq(crud_resumed(&crud, &answer), run);
    cr_assert_eq(run_advance(&crud, run, &run, answer), 0);
    cr_assert_eq(run->step, PROVIDER_DONE);
    cr_assert_eq(run_refusal(run, &problem), 0);
    cr_assert_eq(crud_resumed(&crud, &answer), run, "the database was away");
    cr_assert_eq(run_advance(&crud, run, &run, answer), 0, "and it has ended already");
    wait_free(&wait);
    cr_assert_eq(flows, 0);
}

Test(sign_in_run, an_answer_is_taken_once_however_often_the_verb_is_tried)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    request_t request = {.deadline_ms = bus_mono_ms() + 60000};
    wait_t *wait = wait_new();
    crud_t crud = {.wait = wait, .request = &request};
    run_t *run = a_run(key, SEALED("toy", "1, \"more\": 1")), *fresh = run;
    const wait_answer_t *answer;
    const toy_t *flow = run->engine_flow;

    cr_assert_eq(run_advance(&crud, run, &fresh, NULL), VERB_WAITS);
    wait_take_end(wait, OUTBOUND_CONNECT, "refused");
    cr_assert_eq(crud_resumed(&crud, &answer), run);
    cr_assert(run_step(run, answer));
    cr_assert_eq(flow->answers, 1);
    cr_assert_eq(crud_resumed(&crud, &answer), run);
    cr_assert(run_step(run, answer), "the database was away");
    cr_assert_eq(flow->answers, 1);
    cr_assert_eq(run_ask(&crud, run, &run), VERB_WAITS);
    cr_assert_str_eq(wait->fetch.url, "https://issuer.test/userinfo");
    cr_assert_eq(wait->least_ms, 7);
    cr_assert_gt(wait->state_bytes, sizeof(run_t));
    wait_take_end(wait, OUTBOUND_CONNECT, "refused");
    run = crud_resumed(&crud, &answer);
    cr_assert_eq(run_advance(&crud, run, &run, answer), 0);
    cr_assert_eq(flow->answers, 2);
    cr_assert_eq(run_advance(&crud, run, &run, answer), 0);
    cr_assert_eq(flow->answers, 2);
    wait_free(&wait);
    cr_assert_eq(flows, 0);
}

Test(sign_in_run, each_end_has_its_answer_and_its_reason)
{
    static const struct {
        const char *sealed;
        int want;
    } cases[] = {
        {SEALED("toy", "2"), ERR_SIGN_IN_PROVIDER},
        {SEALED("toy", "3"), ERR_SIGN_IN_PROVIDER},
        {SEALED("toy", "4"), ERR_SIGN_IN_UNAVAILABLE},
    };
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();

    for (size_t i = 0; i < LEN(cases); i++) {
        _cleanup_(run_free) run_t *run = a_run(key, cases[i].sealed);
        problem_t problem = {0};

        run->step = (provider_step_t)(PROVIDER_DENIED + i);
        cr_assert_eq(run_refusal(run, &problem), cases[i].want, "%zu", i);
        cr_assert_str_eq(problem.msg, "the toy says so (route edghtsrt_1)");
        problem_done(&problem);
    }
}

Test(sign_in_run, what_postern_routes_did_not_seal_is_refused)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    _cleanup_(secret_key_destroy) secret_key_t *other = a_key();
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "no JSON",
        "{\"route\": \"r\", \"account\": \"a\", \"edge\": \"e\", \"module\": \"toy\"}",
        "{\"route\": \"r\", \"account\": 1, \"edge\": \"e\", \"module\": \"toy\", \"config\": {}}",
    };
    sealed_t sealed;

    for (size_t i = 0; i < LEN(bad); i++) {
        _cleanup_(json_clear_ref) json_t *body = body_of(key, bad[i]);
        problem_t problem = {0};

        cr_assert_eq(sealed_open(&sealed, key, body, &problem), ERR_INVALID_FIELD, "%s", bad[i]);
        sealed_done(&sealed);
        problem_done(&problem);
    }
    {
        _cleanup_(json_clear_ref) json_t *body = body_of(other, SEALED("toy", "1"));
        _cleanup_(json_clear_ref) json_t *none = json_object();
        problem_t problem = {0};

        cr_assert_eq(sealed_open(&sealed, key, body, &problem), ERR_INVALID_FIELD, "another key");
        problem_done(&problem);
        cr_assert_eq(sealed_open(&sealed, key, none, &problem), ERR_REQUIRED_MISSING);
        problem_done(&problem);
    }
    {
        const char *text = SEALED("toy", "1");
        _cleanup_(free_mem) char *at_rest = secret_seal(key, text, strlen(text));
        _cleanup_(free_mem) char *ticket = secret_seal_for(key, "ticket", text, strlen(text));

        for (int i = 0; i < 2; i++) {
            _cleanup_(json_clear_ref) json_t *body =
                json_pack("{s:s}", "sealed", i ? ticket : at_rest);
            problem_t problem = {0};

            cr_assert_eq(sealed_open(&sealed, key, body, &problem), ERR_INVALID_FIELD,
                         "sealed for something else");
            problem_done(&problem);
        }
    }
}

Test(sign_in_run, a_module_whose_revision_is_none_is_the_oldest)
{
    static const struct {
        const char *revision;
        int64_t is;
    } cases[] = {
        {"1", 1},
        {"9223372036854775807", INT64_MAX},
        {"0", 0},
        {"-1", 0},
        {"-9223372036854775808", 0},
        {"\"7\"", 0},
        {"null", 0},
        {"true", 0},
        {"[7]", 0},
        {"{\"revision\": 7}", 0},
        {"7.0", 0},
        {"1e300", 0},
    };
    static const char *const beyond[] = {"9223372036854775808", "-9223372036854775809", "1e999",
                                         "00000000000000000000000000000000000000007",
                                         "99999999999999999999999999999999999999999"};
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    problem_t problem = {0};
    sealed_t sealed;
    char text[400];

    for (size_t i = 0; i < LEN(cases) + LEN(beyond); i++) {
        const char *revision = i < LEN(cases) ? cases[i].revision : beyond[i - LEN(cases)];
        _cleanup_(json_clear_ref) json_t *body = NULL;
        int r;

        snprintf(text, sizeof(text), SEALED("toy", "1, \"revision\": %s"), revision);
        body = body_of(key, text);
        r = sealed_open(&sealed, key, body, &problem);
        cr_assert_eq(r, i < LEN(cases) ? 0 : ERR_INVALID_FIELD, "%s: %d", revision, r);
        cr_assert_eq(sealed.revision, i < LEN(cases) ? cases[i].is : 0, "%s", revision);
        sealed_done(&sealed);
        problem_done(&problem);
        problem = (problem_t){0};
    }
}

Test(sign_in_run, a_session_is_beyond_the_rules_that_are_older_than_those_that_judged_it)
{
    static const struct {
        const char *revision;
        int64_t judged;
        bool is_beyond;
    } cases[] = {
        {"", 0, false},
        {"", 1, true}, /* of a version that knew no revisions: the oldest */
        {", \"revision\": 1795000000000", 0, false},
        {", \"revision\": 1795000000000", 1795000000000, false},
        {", \"revision\": 1795000000000", 1795000000001, true},
        {", \"revision\": \"1795000000000\"", 1, true},
    };
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();

    for (size_t i = 0; i < LEN(cases); i++) {
        _cleanup_(json_clear_ref) json_t *body = NULL;
        problem_t problem = {0};
        sealed_t sealed;
        char text[256];

        snprintf(text, sizeof(text),
                 "{\"route\": \"r\", \"account\": \"a\", \"edge\": \"e\", \"module\": \"toy\", "
                 "\"config\": {\"enabled\": true%s}}",
                 cases[i].revision);
        body = body_of(key, text);
        cr_assert_eq(sealed_open(&sealed, key, body, &problem), 0);
        cr_assert_eq(session_is_beyond(&(session_t){.revision = cases[i].judged}, &sealed),
                     cases[i].is_beyond, "case %zu", i);
        sealed_done(&sealed);
    }
}

Test(sign_in_run, what_has_no_rules_is_enough_to_begin_with_and_for_nothing_else)
{
    static const char place[] =
        "{\"route\": \"r\", \"account\": \"a\", \"edge\": \"e\", \"module\": \"toy\"}";
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    _cleanup_(json_clear_ref) json_t *sealed_one = body_of(key, place);
    _cleanup_(json_clear_ref) json_t *whole = body_of(key, SEALED("toy", "1"));
    _cleanup_(json_clear_ref) json_t *body =
        json_pack("{s:O}", "place", json_object_get(sealed_one, "sealed"));
    problem_t problem = {0};
    sealed_t sealed;

    cr_assert_eq(sealed_open_place(&sealed, key, body, &problem), 0);
    cr_assert_str_eq(sealed.route, "r");
    cr_assert_null(sealed.config);
    sealed_done(&sealed);
    cr_assert_eq(sealed_open_place(&sealed, key, whole, &problem), 0, "an older edge");
    sealed_done(&sealed);
    cr_assert_eq(sealed_open(&sealed, key, body, &problem), ERR_REQUIRED_MISSING);
    sealed_done(&sealed);
    problem_done(&problem);
    cr_assert_eq(sealed_open(&sealed, key, sealed_one, &problem), ERR_INVALID_FIELD);
    sealed_done(&sealed);
    problem_done(&problem);
    json_object_set_new(body, "place", json_string("x"));
    cr_assert_eq(sealed_open_place(&sealed, key, body, &problem), ERR_INVALID_FIELD);
    sealed_done(&sealed);
    problem_done(&problem);
}

Test(sign_in_run, a_module_without_an_engine_is_unavailable)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    _cleanup_(json_clear_ref) json_t *body = body_of(key, SEALED("traffic_policy", "1"));
    problem_t problem = {0};
    sealed_t sealed;

    cr_assert_eq(sealed_open(&sealed, key, body, &problem), 0);
    cr_assert_eq(sealed_check_engine(&sealed, &problem), ERR_SIGN_IN_UNAVAILABLE);
    cr_assert(strstr(problem.msg, "traffic_policy"), "%s", problem.msg);
    problem_done(&problem);
    sealed_done(&sealed);
}

Test(sign_in_run, the_digest_follows_the_rules_and_not_their_spelling)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = a_key();
    _cleanup_(json_clear_ref) json_t *one = json_loads("{\"a\": 1, \"b\": [\"x\"]}", 0, NULL);
    _cleanup_(json_clear_ref) json_t *same = json_loads("{ \"b\":[\"x\"], \"a\":1 }", 0, NULL);
    _cleanup_(json_clear_ref) json_t *other = json_loads("{\"a\": 1, \"b\": [\"y\"]}", 0, NULL);
    char a[SIGN_IN_DIGEST_SIZE], b[SIGN_IN_DIGEST_SIZE];

    cr_assert_eq(sign_in_digest(key, "oidc", one, a), 0);
    cr_assert_eq(sign_in_digest(key, "oidc", same, b), 0);
    cr_assert_str_eq(a, b);
    cr_assert(words_is_hex(a));
    cr_assert_eq(sign_in_digest(key, "oidc", other, b), 0);
    cr_assert_str_neq(a, b);
    cr_assert_eq(sign_in_digest(key, "oauth", one, b), 0);
    cr_assert_str_neq(a, b);
}
