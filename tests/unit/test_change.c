#include "common/base/cleanup.h"
#include "common/resource/change.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    cr_assert_not_null(value, "%s", text);
    return value;
}

static void expect_equal(const json_t *value, const char *text)
{
    _cleanup_(json_clear_ref) json_t *want = parse(text);
    _cleanup_(free_mem) char *got = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    cr_expect(json_equal(value, want), "%s, not %s", got, text);
}

/* ---- patches ---- */

/* What a kind's stored document becomes by a request's body. */
static const struct {
    const char *name, *kind, *old, *body, *want;
    int code;
} updates[] = {
    {"what is not said stays", "static_backend", "{\"description\":\"a\",\"metadata\":\"m\"}",
     "{\"metadata\":\"n\"}", "{\"description\":\"a\",\"metadata\":\"n\"}", 0},
    {"nothing said changes nothing", "static_backend", "{\"description\":\"a\"}", "{}",
     "{\"description\":\"a\"}", 0},
    {"null is nothing said", "static_backend", "{\"description\":\"a\"}", "{\"description\":null}",
     "{\"description\":\"a\"}", 0},
    {"an empty text clears one", "static_backend", "{\"description\":\"a\"}",
     "{\"description\":\"\"}", "{\"description\":\"\"}", 0},
    {"an object is replaced as a whole, with its defaults", "https_edge",
     "{\"tls_termination\":{\"enabled\":true,\"terminate_at\":\"edge\",\"min_version\":\"1.3\"}}",
     "{\"tls_termination\":{\"enabled\":false}}",
     "{\"tls_termination\":{\"enabled\":false,\"terminate_at\":\"edge\",\"min_version\":null}}", 0},
    {"an empty list is said only where none of it means less", "event_subscription",
     "{\"sources\":[{\"type\":\"t\"}],\"destination_ids\":[\"ed_1\"]}",
     "{\"sources\":[],\"destination_ids\":[]}",
     "{\"sources\":[{\"type\":\"t\"}],\"destination_ids\":[]}", 0},
    {"the id of the path may be repeated", "api_key", "{\"id\":\"ak_1\"}", "{\"id\":\"other\"}",
     "{\"id\":\"ak_1\"}", 0},
    {"a field that cannot change may be sent as it is", "api_key", "{\"owner_id\":\"bot_x\"}",
     "{\"owner_id\":\"bot_x\"}", "{\"owner_id\":\"bot_x\"}", 0},
    {"but not as another", "api_key", "{\"owner_id\":\"bot_x\"}", "{\"owner_id\":\"bot_y\"}", NULL,
     ERR_IMMUTABLE_FIELD},
    {"an older word is the field's", "reserved_domain", "{\"domain\":\"a.test\"}",
     "{\"name\":\"A.test.\"}", "{\"domain\":\"a.test\"}", 0},
    {"two words with two values", "reserved_domain", "{\"domain\":\"a.test\"}",
     "{\"name\":\"a.test\",\"domain\":\"b.test\"}", NULL, ERR_TWO_WORDS},
    {"a field that is not there", "vault", "{}", "{\"nonsense\":1}", NULL, ERR_UNKNOWN_FIELD},
    {"what only the service sets", "vault", "{}", "{\"created_at\":\"2020-01-01T00:00:00Z\"}", NULL,
     ERR_UNKNOWN_FIELD},
    {"a value of another type", "vault", "{}", "{\"description\":1}", NULL, ERR_INVALID_FIELD},
    {"no object", "vault", "{}", "[]", NULL, ERR_BODY_UNPARSABLE},
};

Test(change, an_update_leaves_the_document_that_its_rules_say)
{
    for (size_t i = 0; i < LEN(updates); i++) {
        _cleanup_(json_clear_ref) json_t *old = parse(updates[i].old);
        _cleanup_(json_clear_ref) json_t *body = parse(updates[i].body);
        _cleanup_(json_clear_ref) json_t *patch = NULL;
        _cleanup_(json_clear_ref) json_t *left = NULL;
        problem_t problem = {0};
        int r =
            schema_check(kind_find(updates[i].kind), OPERATION_UPDATE, old, body, &problem, &patch);

        cr_expect_eq(r, updates[i].code, "%s: %d %s", updates[i].name, r, problem.msg);
        if (!r && !updates[i].code) {
            left = change_apply(old, patch);
            expect_equal(left, updates[i].want);
            expect_equal(old, updates[i].old);
        }
        problem_done(&problem);
    }
}

Test(change, a_kind_may_refuse_an_update_that_sets_nothing)
{
    _cleanup_(json_clear_ref) json_t *empty = json_object();
    _cleanup_(json_clear_ref) json_t *some = json_pack("{s:s}", "description", "");

    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        problem_t problem = {0};
        bool refuses = kind->operations & KIND_NO_EMPTY_UPDATE;

        cr_expect_eq(change_check_patch(kind, empty, &problem), refuses ? ERR_EMPTY_UPDATE : 0,
                     "%s", kind->name);
        cr_expect_eq(change_check_patch(kind, some, &problem), 0, "%s", kind->name);
        problem_done(&problem);
    }
}

/* ---- preconditions ---- */

Test(change, if_match_is_met_by_its_own_etag_in_a_list_and_by_a_star_where_there_is_something)
{
    _cleanup_(json_clear_ref) json_t *shown = parse("{\"id\":\"a\",\"n\":1}");
    _cleanup_(json_clear_ref) json_t *other = parse("{\"id\":\"a\",\"n\":2}");
    char etag[CHANGE_ETAG] = "", text[200];
    problem_t problem = {0};

    change_etag(shown, etag);
    cr_assert_eq(strlen(etag), 34);
    cr_assert_eq(change_check_precondition(NULL, shown, &problem), 0);
    cr_assert_eq(change_check_precondition(NULL, NULL, &problem), 0);
    cr_assert_eq(change_check_precondition(etag, shown, &problem), 0);
    cr_assert_eq(change_check_precondition("*", shown, &problem), 0);
    snprintf(text, sizeof(text), "\"x\", %s", etag);
    cr_assert_eq(change_check_precondition(text, shown, &problem), 0);
    cr_assert_eq(change_check_precondition(etag, other, &problem), ERR_PRECONDITION_FAILED);
    cr_assert_eq(change_check_precondition(etag, NULL, &problem), ERR_PRECONDITION_FAILED);
    cr_assert_eq(change_check_precondition("*", NULL, &problem), ERR_PRECONDITION_FAILED);
    cr_assert_eq(change_check_precondition("", shown, &problem), ERR_PRECONDITION_FAILED);
    etag[strlen(etag) - 1] = '\0';
    cr_assert_eq(change_check_precondition(etag, shown, &problem), ERR_PRECONDITION_FAILED);
    problem_done(&problem);
}

/* ---- the same request ---- */

static void fingerprint(const secret_key_t *key, const char *verb, const char *body,
                        char out[CHANGE_FINGERPRINT])
{
    _cleanup_(json_clear_ref) json_t *parsed = parse(body);
    request_t request = {.body = parsed};

    snprintf(request.verb, sizeof(request.verb), "%s", verb);
    cr_assert_eq(change_fingerprint(key, &request, out), 0);
    expect_equal(parsed, body);
}

Test(change, a_request_is_the_same_by_what_it_asks_for_and_not_by_how_it_is_spelt)
{
    static const struct {
        const char *verb, *body;
        bool same;
    } cases[] = {
        {"vault.update", "{\"document\":{\"name\":\"n\"},\"id\":\"v\"}", true},
        {"vault.update", "{\"id\":\"v\",\"document\":{\"name\":\"n\"},\"path\":\"/vaults/%76\"}",
         true},
        {"vault.update", "{\"id\":\"v\",\"document\":{\"name\":\"n\"},\"if_match\":\"*\"}", true},
        {"vault.update", "{\"id\":\"v\",\"document\":{\"name\":\"m\"}}", false},
        {"vault.update", "{\"id\":\"w\",\"document\":{\"name\":\"n\"}}", false},
        {"vault.update", "{\"id\":\"v\"}", false},
        {"vault.update",
         "{\"id\":\"v\",\"document\":{\"name\":\"n\"},\"" OPERATION_PART "\":\"p\"}", false},
        {"secret.update", "{\"id\":\"v\",\"document\":{\"name\":\"n\"}}", false},
    };
    _cleanup_(secret_key_destroy) secret_key_t *key = NULL;
    char path[] = "/tmp/postern-key-XXXXXX", first[CHANGE_FINGERPRINT], next[CHANGE_FINGERPRINT];

    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(secret_key_load(&key, path), 0);
    unlink(path);
    fingerprint(key, "vault.update", "{\"id\":\"v\",\"document\":{\"name\":\"n\"}}", first);
    cr_assert_eq(strlen(first), CHANGE_FINGERPRINT - 1);
    for (size_t i = 0; i < LEN(cases); i++) {
        fingerprint(key, cases[i].verb, cases[i].body, next);
        cr_expect_eq(!strcmp(first, next), cases[i].same, "%s %s", cases[i].verb, cases[i].body);
    }
}

/* ---- conflicts ---- */

Test(change, a_broken_constraint_is_answered_by_its_row_and_is_a_fault_without_one)
{
    problem_t problem = {0};

    cr_assert_eq(change_conflict("vault_name", &problem), ERR_DUPLICATE);
    cr_assert_not_null(json_object_get(problem.details, "name"));
    problem_done(&problem);
    problem = (problem_t){0};
    cr_assert_eq(change_conflict("https_edge_route_match", &problem), ERR_MATCH_DUPLICATE);
    problem_done(&problem);
    problem = (problem_t){0};
    cr_assert_eq(change_conflict("vault_pkey", &problem), -EIO);
    cr_assert_eq(problem.code, 0);
}

/* ---- audit events ---- */

Test(change, an_audit_event_says_who_did_what_and_no_secret)
{
    _cleanup_(json_clear_ref) json_t *shown = parse(
        "{\"id\":\"r\",\"webhook_verification\":{\"provider\":\"github\",\"secret\":\"canary\"}}");
    _cleanup_(json_clear_ref) json_t *actor = parse("{\"id\":\"usr_1\"}");
    const request_t request = {.account = "ac_1", .actor = actor};
    _cleanup_(json_clear_ref) json_t *event = change_event(
        kind_find("https_edge_route"), "updated", "ev_1", "2026-01-31T12:00:00Z", &request, shown);

    expect_equal(event, "{\"event_id\":\"ev_1\",\"event_type\":\"https_edge_route_updated.v0\","
                        "\"event_timestamp\":\"2026-01-31T12:00:00Z\",\"account_id\":\"ac_1\","
                        "\"principal\":{\"id\":\"usr_1\"},\"object\":{\"id\":\"r\","
                        "\"webhook_verification\":{\"provider\":\"github\",\"secret\":\"***\"}}}");
    expect_equal(shown, "{\"id\":\"r\",\"webhook_verification\":{\"provider\":\"github\","
                        "\"secret\":\"canary\"}}");
}
