/* What edges get of a route's oauth, oidc and saml, and what only postern-identity can read. */
#include "services/routes/sign_in_module.h"
#include "common/schema/sign_in_digest.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OIDC                                                                                       \
    "{\"enabled\": true, \"cookie_prefix\": \"my.\", \"options_passthrough\": true, "              \
    "\"inactivity_timeout\": 60, \"maximum_duration\": 3600, \"issuer\": \"https://op.example\", " \
    "\"client_id\": \"the-client\", \"client_secret\": \"the-secret\", \"scopes\": [\"email\"]}"

static secret_key_t *make_key(void)
{
    char path[] = "/tmp/sign-in-XXXXXX";
    secret_key_t *key = NULL;
    int fd = mkstemp(path);

    close(fd);
    unlink(path);
    cr_assert_eq(secret_key_load(&key, path), 0);
    unlink(path);
    return key;
}

static json_t *make_row(const char *name, const char *config)
{
    json_t *row = json_pack("{s:s, s:s, s:s}", "id", "edghtsrt_1", "account_id", "ac_1", "edge_id",
                            "edghts_1");
    json_t *module = json_loads(config, 0, NULL);

    cr_assert(module);
    json_object_set_new(row, name, module);
    return row;
}

static json_t *publish(const secret_key_t *key, const char *name, const char *config)
{
    json_t *row = make_row(name, config);
    json_t *out = sign_in_module_publish(key, name, row);

    cr_assert(out);
    json_decref(row);
    return out;
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

Test(sign_in_module, an_edge_gets_what_it_needs_and_no_secret)
{
    secret_key_t *key = make_key();
    json_t *out = publish(key, "oidc", OIDC);
    char *text = json_dumps(out, 0);

    cr_assert_null(strstr(text, "the-secret"));
    cr_assert_null(strstr(text, "op.example"));
    cr_assert_eq(json_object_size(out), 14);
    cr_assert_str_eq(text_at(out, "module"), "oidc");
    cr_assert_str_eq(text_at(out, "cookie_prefix"), "my.");
    cr_assert_str_eq(text_at(out, "client_id"), "the-client");
    cr_assert(json_is_true(json_object_get(out, "enabled")));
    cr_assert(json_is_true(json_object_get(out, "options_passthrough")));
    cr_assert(json_is_false(json_object_get(out, "allow_idp_initiated")));
    cr_assert(json_is_false(json_object_get(out, "service_tokens")));
    cr_assert(json_is_false(json_object_get(out, "bearer_tokens")));
    cr_assert_eq(json_integer_value(json_object_get(out, "inactivity_timeout")), 60);
    cr_assert_eq(json_integer_value(json_object_get(out, "maximum_duration")), 3600);
    cr_assert(json_is_integer(json_object_get(out, "auth_check_interval")), "0: it has none");
    cr_assert_eq(strlen(text_at(out, "digest")), SIGN_IN_DIGEST_SIZE - 1);
    free(text);
    json_decref(out);
    secret_key_destroy(&key);
}

Test(sign_in_module, what_is_enough_to_begin_with_is_short_whatever_the_rules_are)
{
    secret_key_t *key = make_key();
    json_t *out = publish(key, "oidc", OIDC), *opened;
    char *text;
    size_t len;

    cr_assert(strlen(text_at(out, "place")) < 512);
    cr_assert_eq(secret_open_for(key, SIGN_IN_SEALED, text_at(out, "place"), &text, &len), 0);
    opened = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    cr_assert_eq(json_object_size(opened), 4);
    cr_assert_str_eq(text_at(opened, "route"), "edghtsrt_1");
    cr_assert_str_eq(text_at(opened, "account"), "ac_1");
    cr_assert_str_eq(text_at(opened, "edge"), "edghts_1");
    cr_assert_str_eq(text_at(opened, "module"), "oidc");
    json_decref(opened);
    json_decref(out);
    secret_key_destroy(&key);
}

Test(sign_in_module, what_is_sealed_opens_to_the_whole_module)
{
    secret_key_t *key = make_key();
    json_t *out = publish(key, "oidc", OIDC), *config = json_loads(OIDC, 0, NULL), *opened;
    char digest[SIGN_IN_DIGEST_SIZE], *text;
    size_t len;

    cr_assert_eq(secret_open_for(key, SIGN_IN_SEALED, text_at(out, "sealed"), &text, &len), 0);
    opened = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    cr_assert_eq(json_object_size(opened), 5);
    cr_assert_str_eq(text_at(opened, "route"), "edghtsrt_1");
    cr_assert_str_eq(text_at(opened, "account"), "ac_1");
    cr_assert_str_eq(text_at(opened, "edge"), "edghts_1");
    cr_assert_str_eq(text_at(opened, "module"), "oidc");
    cr_assert(json_equal(json_object_get(opened, "config"), config));
    cr_assert_eq(sign_in_digest(key, "oidc", json_object_get(opened, "config"), digest), 0);
    cr_assert_str_eq(digest, text_at(out, "digest"), "identity makes the same of it");
    json_decref(opened);
    json_decref(config);
    json_decref(out);
    secret_key_destroy(&key);
}

/* ---- the order of changes ---- */

static json_int_t revision_of(const json_t *module)
{
    return json_integer_value(json_object_get(module, "revision"));
}

/* The module that takes the place of before at that time. */
static json_t *change(const char *config, const json_t *before, int64_t now_ms)
{
    json_t *module = json_loads(config, 0, NULL);

    cr_assert(module);
    sign_in_module_set_revision(module, before, now_ms);
    return module;
}

Test(sign_in_module, has_a_higher_revision_after_each_change_whatever_the_clock_says)
{
    json_t *one = change("{\"enabled\": true}", NULL, 5000);
    json_t *same = change("{\"enabled\": true}", one, 6000);
    json_t *other = change("{\"enabled\": false}", same, 7000);
    json_t *back = change("{\"enabled\": true}", other, 4000);
    json_t *given = change("{\"enabled\": true, \"revision\": 9000}", back, 8000);

    cr_assert_eq(revision_of(one), 5000);
    cr_assert_eq(revision_of(same), 5000, "nothing has changed");
    cr_assert_eq(revision_of(other), 7000);
    cr_assert_eq(revision_of(back), 7001, "the clock was put back");
    cr_assert_eq(revision_of(given), 7001, "nobody else says what it is");
    json_decref(one);
    json_decref(same);
    json_decref(other);
    json_decref(back);
    json_decref(given);
}

Test(sign_in_module, that_a_version_without_revisions_stored_has_one_from_its_next_update_on)
{
    json_t *former = json_loads("{\"enabled\": true}", 0, NULL);
    json_t *now = change("{\"enabled\": true}", former, 5000);

    cr_assert_eq(revision_of(now), 5000);
    json_decref(former);
    json_decref(now);
}

static void digest_of(const secret_key_t *key, const char *name, const char *config,
                      char out[SIGN_IN_DIGEST_SIZE])
{
    json_t *document = publish(key, name, config);

    snprintf(out, SIGN_IN_DIGEST_SIZE, "%s", text_at(document, "digest"));
    json_decref(document);
}

Test(sign_in_module, of_one_that_is_off_edges_get_what_signs_people_out_alone)
{
    secret_key_t *key = make_key();
    json_t *row = make_row("saml", "{\"enabled\": false, \"idp_metadata\": \"<xml/>\", "
                                   "\"other_request_signing_key_pem\": \"no use\"}");
    json_t *out = sign_in_module_publish_off(key, "saml", row), *whole;
    char *text = NULL;
    size_t len = 0;

    cr_assert_eq(json_object_size(out), 2);
    cr_assert_str_eq(text_at(out, "module"), "saml");
    cr_assert_eq(secret_open_for(key, SIGN_IN_SEALED, text_at(out, "sealed"), &text, &len), 0);
    whole = json_loadb(text, len, 0, NULL);
    cr_assert_str_eq(text_at(whole, "route"), "edghtsrt_1");
    cr_assert_str_eq(text_at(json_object_get(whole, "config"), "idp_metadata"), "<xml/>");
    cr_assert(json_is_false(json_object_get(json_object_get(whole, "config"), "enabled")));
    cr_assert_null(strstr(text, "no use"));
    secret_free(&text, len);
    json_decref(whole);
    json_decref(out);
    json_decref(row);
    secret_key_destroy(&key);
}

Test(sign_in_module, a_digest_does_not_depend_on_the_order_of_fields_and_on_all_else)
{
    static const char *const others[] = {
        "{\"enabled\": true, \"client_secret\": \"c\", \"scopes\": []}",
        "{\"enabled\": true, \"client_secret\": \"b\", \"scopes\": [\"x\"]}",
        "{\"enabled\": true, \"client_secret\": \"b\", \"scopes\": [], \"issuer\": \"\"}",
        "{\"enabled\": true, \"client_secret\": \"b\"}",
        "{\"enabled\": false, \"client_secret\": \"b\", \"scopes\": []}",
        "{\"enabled\": true, \"client_secret\": \"b\", \"scopes\": [], \"revision\": 1}",
    };
    const char *one = "{\"enabled\": true, \"client_secret\": \"b\", \"scopes\": []}";
    secret_key_t *key = make_key(), *second = make_key();
    char digest[SIGN_IN_DIGEST_SIZE], other[SIGN_IN_DIGEST_SIZE];

    digest_of(key, "oidc", one, digest);
    digest_of(key, "oidc", "{\"scopes\": [], \"client_secret\": \"b\", \"enabled\": true}", other);
    cr_assert_str_eq(digest, other);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        digest_of(key, "oidc", others[i], other);
        cr_assert_str_neq(digest, other, "%s", others[i]);
    }
    digest_of(key, "oauth", one, other);
    cr_assert_str_neq(digest, other, "another module");
    digest_of(second, "oidc", one, other);
    cr_assert_str_neq(digest, other, "another key: nobody can guess a secret by it");
    secret_key_destroy(&key);
    secret_key_destroy(&second);
}

Test(sign_in_module, a_client_id_is_that_of_the_provider_which_oauth_has)
{
    secret_key_t *key = make_key();
    json_t *own =
        publish(key, "oauth",
                "{\"enabled\": true, \"auth_check_interval\": 30, \"provider\": {\"github\": "
                "null, \"google\": {\"client_id\": \"mine\", \"client_secret\": \"s\"}}}");
    json_t *theirs = publish(
        key, "oauth", "{\"enabled\": true, \"provider\": {\"github\": {\"client_id\": null}}}");
    json_t *saml = publish(key, "saml", "{\"enabled\": true, \"allow_idp_initiated\": true}");

    cr_assert_str_eq(text_at(own, "client_id"), "mine");
    cr_assert_eq(json_integer_value(json_object_get(own, "auth_check_interval")), 30);
    cr_assert_str_eq(text_at(theirs, "client_id"), "");
    cr_assert_str_eq(text_at(saml, "client_id"), "");
    cr_assert(json_is_true(json_object_get(saml, "allow_idp_initiated")));
    json_decref(own);
    json_decref(theirs);
    json_decref(saml);
    secret_key_destroy(&key);
}
