/* What the API shows of a row's text. */
#include "common/base/cleanup.h"
#include "common/schema/schema.h"

#include <criterion/criterion.h>
#include <string.h>

#define KSUID "000000000000000000000000000"

static char *render(const char *kind, const char *row, int *ret_r)
{
    msgpack_sbuffer out;
    char *text;

    msgpack_sbuffer_init(&out);
    *ret_r = schema_text(&out, kind_find(kind), row, "https://api");
    text = strndup(out.data ? out.data : "", out.size);
    msgpack_sbuffer_destroy(&out);
    return text;
}

Test(render, copies_values_as_they_stand)
{
    int r;
    _cleanup_(free_mem) char *text =
        render("http_response_backend",
               "{\"id\": \"bkdhr_1\", \"body\": \"a \\\"b\\\" {[,]} \\\\\", \"headers\": {\"x\": "
               "\"}\\\"\", \"y\": \"[\"}, \"metadata\": \"\\u20ac \xe2\x82\xac\", \"account_id\": "
               "\"ac_1\", \"created_at\": \"2026-01-02T03:04:05.678+00:00\", \"description\": "
               "\"\", \"status_code\": 200}",
               &r);

    cr_assert_eq(r, 0);
    cr_assert_str_eq(text,
                     "{\"id\":\"bkdhr_1\",\"uri\":\"https://api/backends/http_response/"
                     "bkdhr_1\",\"created_at\":\"2026-01-02T03:04:05Z\",\"description\":\"\","
                     "\"metadata\":\"\\u20ac \xe2\x82\xac\",\"body\":\"a \\\"b\\\" {[,]} "
                     "\\\\\",\"headers\":{\"x\": \"}\\\"\", \"y\": \"[\"},\"status_code\":200}");
}

Test(render, follows_the_tables_into_references_and_nested_objects)
{
    int r;
    _cleanup_(free_mem) char *text =
        render("https_edge_route",
               "{\"id\": \"edghtsrt_1\", \"edge_id\": \"edghts_1\", \"match\": \"/\", \"backend\": "
               "{\"enabled\": true, \"backend_id\": \"bkdhr_" KSUID
               "\"}, \"ip_restriction\": {\"enabled\": null, "
               "\"ip_policy_ids\": [\"ipp_1\", \"ipp_" KSUID "\"]}, \"compression\": null}",
               &r);
    _cleanup_(json_clear_ref) json_t *shown = json_loads(text, 0, NULL);

    cr_assert_eq(r, 0);
    cr_assert_not_null(shown, "%s", text);
    cr_assert(strstr(text, "\"uri\":\"https://api/edges/https/edghts_1/routes/edghtsrt_1\""), "%s",
              text);
    cr_assert(strstr(text, "\"backend\":{\"id\":\"bkdhr_" KSUID "\",\"uri\":\"https://api/backends/"
                           "http_response/bkdhr_" KSUID "\"}"),
              "%s", text);
    cr_assert(strstr(text, "{\"id\":\"ipp_" KSUID "\",\"uri\":\"https://api/ip_policies/ipp_" KSUID
                           "\"}]"),
              "%s", text);
    cr_assert(json_is_null(json_object_get(shown, "compression")));
    cr_assert(json_is_null(json_object_get(shown, "oauth")), "not stored");
}

Test(render, refuses_what_is_no_object)
{
    static const char whole[] =
        "{\"id\": \"edghtsrt_1\", \"backend\": {\"backend_id\": \"bkdhr_1\"}, \"match\": \"\\\"\"}";
    static const char *const cases[] = {
        "",
        "[]",
        "null",
        "{\"id\"}",
        "{\"id\":}",
        "{\"id\" 1}",
        "{id: 1}",
        "{\"id\": \"x\" \"y\"}",
        "{\"backend\": 5}",
        "{\"backend\": {\"backend_id\": 7}}",
        "{\"ip_restriction\": {\"ip_policy_ids\": {}}}",
        "{\"ip_restriction\": {\"ip_policy_ids\": [\"a\\\"b\"]}}",
    };
    char cut[sizeof(whole)] = "", id[8];
    int r;

    for (size_t i = 0; i < LEN(cases); i++) {
        free(render("https_edge_route", cases[i], &r));
        cr_assert_neq(r, 0, "%s", cases[i]);
    }
    for (size_t n = 0; n + 1 < sizeof(whole); n++) { /* no cut of it is taken */
        memcpy(cut, whole, n);
        cut[n] = '\0';
        free(render("https_edge_route", cut, &r));
        cr_assert_neq(r, 0, "%s", cut);
    }
    free(render("https_edge_route", whole, &r));
    cr_assert_eq(r, 0);
    cr_assert_neq(schema_text_member(whole, "id", id, sizeof(id)), 0, "does not fit");
    cr_assert_neq(schema_text_member(whole, "match", cut, sizeof(cut)), 0, "has escapes");
    cr_assert_neq(schema_text_member(whole, "none", cut, sizeof(cut)), 0);
    cr_assert_eq(schema_text_member(whole, "id", cut, sizeof(cut)), 0);
    cr_assert_str_eq(cut, "edghtsrt_1");
}

/* Rows hold an account and a few more names than the tables' fields. */
static void check_size(const object_type_t *type)
{
    size_t n = 0;

    for (const field_t *field = type->fields; field->name; field++, n++)
        if (field->type == FIELD_NESTED || field->type == FIELD_NESTEDS)
            check_size(field->object);
    cr_assert_leq(n, 48);
}

Test(render, every_row_fits)
{
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        check_size(&kind->type);
}
