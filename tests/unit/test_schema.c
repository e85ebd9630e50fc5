#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/schema/event_types.h"
#include "common/schema/schema.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <string.h>

static int check(const char *kind, unsigned operation, const char *text, problem_t *problem,
                 json_t **out)
{
    _cleanup_(json_clear_ref) json_t *body = json_loads(text, 0, NULL);

    cr_assert_not_null(body, "%s", text);
    memset(problem, 0, sizeof(*problem));
    *out = NULL;
    return schema_check(kind_find(kind), operation, NULL, body, problem, out);
}

Test(schema, every_table_is_consistent)
{
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        cr_assert_eq(kind_find(kind->name), kind);
        cr_assert_not_null(field_find(&kind->type, "id"), "%s", kind->name);
        for (const field_t *field = kind->type.fields; field->name; field++) {
            cr_assert_not_null(field->meaning, "%s.%s", kind->name, field->name);
            if (field->fallback) {
                json_t *value = json_loads(field->fallback, JSON_DECODE_ANY, NULL);

                cr_assert_not_null(value, "%s.%s", kind->name, field->name);
                json_decref(value);
            }
        }
    }
    for (const outcome_t *row = outcome_all(); row->code; row++)
        for (const outcome_t *other = row + 1; other->code; other++)
            cr_assert_neq(row->code, other->code, "%s and %s", row->name, other->name);
}

Test(schema, a_wrong_parent_is_answered_as_the_kind_says)
{
    cr_assert_eq(kind_wrong_parent(kind_find("https_edge_route")), ERR_ROUTE_EDGE_MISMATCH);
    cr_assert_eq(kind_wrong_parent(kind_find("vault")), ERR_NOT_FOUND, "what no row says");
}

/* What an update may empty. Of a new list somebody has to say whether none of it would mean less,
 * as here, or anything at all: then it is KEEP_EMPTY. */
static bool may_be_emptied(const char *name)
{
    static const char *const names[] = {"hostports", "headers", "destinations", "route_ids",
                                        "edge_ids"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

Test(schema, an_update_empties_no_list_whose_absence_would_permit_more)
{
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        for (const field_t *field = kind->type.fields; field->name; field++) {
            bool list = field->type == FIELD_STRINGS || field->type == FIELD_STRMAP
                        || field->type == FIELD_WEIGHT_MAP || field->type == FIELD_NESTEDS
                        || field->type == FIELD_REFERENCES;

            if (kind->operations & OPERATION_UPDATE && list && !field->min
                && !(field->flags
                     & (FIELD_READ_ONLY | FIELD_IMMUTABLE | FIELD_HIDDEN | FIELD_COMPUTED)))
                cr_assert(field->flags & FIELD_KEEP_EMPTY || may_be_emptied(field->name), "%s.%s",
                          kind->name, field->name);
        }
}

Test(schema, fills_defaults_at_create_and_only_changes_at_update)
{
    problem_t problem;
    json_t *out;

    cr_assert_eq(
        check("static_backend", OPERATION_CREATE, "{\"address\":\"H:80\"}", &problem, &out), 0);
    cr_assert_str_eq(json_string_value(json_object_get(out, "address")), "h:80");
    cr_assert(json_is_false(json_object_get(json_object_get(out, "tls"), "enabled")));
    json_decref(out);
    cr_assert_eq(check("static_backend", OPERATION_UPDATE,
                       "{\"description\":\"\",\"address\":\"\"}", &problem, &out),
                 0);
    cr_assert_eq(json_object_size(out), 1, "\"\" clears the description and leaves the address");
    json_decref(out);
    cr_assert_eq(check("static_backend", OPERATION_UPDATE, "{\"address\":\"h:1\",\"tls\":{}}",
                       &problem, &out),
                 0);
    cr_assert_eq(json_object_size(out), 1, "an empty tls leaves TLS as it is");
    json_decref(out);
    cr_assert_eq(
        check("static_backend", OPERATION_UPDATE, "{\"tls\":{\"enabled\":false}}", &problem, &out),
        0);
    cr_assert(json_is_false(json_object_get(json_object_get(out, "tls"), "enabled")));
    json_decref(out);
}

Test(schema, counts_bytes_at_the_edge_and_one_past_it)
{
    char text[400];
    problem_t problem;
    json_t *out;

    snprintf(text, sizeof(text), "{\"description\":\"%0*d\"}", 255, 0);
    cr_assert_eq(check("api_key", OPERATION_CREATE, text, &problem, &out), 0);
    json_decref(out);
    snprintf(text, sizeof(text), "{\"description\":\"%0*d\"}", 256, 0);
    cr_assert_eq(check("api_key", OPERATION_CREATE, text, &problem, &out),
                 ERR_DESCRIPTION_TOO_LONG);
    cr_assert_not_null(json_object_get(problem.details, "description"));
    problem_done(&problem);
}

Test(schema, seals_and_opens_every_secret_however_deep)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = NULL;
    _cleanup_(json_clear_ref) json_t *before = NULL;
    char path[] = "/tmp/postern-key-XXXXXX";
    problem_t problem;
    json_t *out;
    char *text;

    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(secret_key_load(&key, path), 0);
    cr_assert_eq(check("https_edge_route", OPERATION_CREATE,
                       "{\"match\":\"/\",\"match_type\":\"path_prefix\","
                       "\"oauth\":{\"provider\":{\"github\":{\"client_id\":\"c\",\"client_secret\":"
                       "\"canary1\"}}},"
                       "\"webhook_verification\":{\"provider\":\"github\",\"secret\":\"canary2\"}}",
                       &problem, &out),
                 0);
    before = json_deep_copy(out);
    cr_assert_eq(schema_seal(kind_find("https_edge_route"), out, key), 0);
    text = json_dumps(out, 0);
    cr_assert_null(strstr(text, "canary"));
    free(text);
    cr_assert_eq(schema_unseal(kind_find("https_edge_route"), out, key), 0);
    cr_assert(json_equal(before, out));
    json_decref(out);
    unlink(path);
}

Test(id, sorts_by_creation_and_has_its_shape)
{
    char last[ID_MAX] = "", now[ID_MAX];

    for (int i = 0; i < 1000; i++) {
        id_make("rd", now);
        cr_assert(id_check("rd", now), "%s", now);
        cr_assert_lt(strcmp(last, now), 0);
        memcpy(last, now, sizeof(last));
    }
    cr_assert_not(id_check("ak", now));
    cr_assert_not(id_check("rd", "rd_short"));
}

Test(secret, refuses_what_was_changed)
{
    _cleanup_(secret_key_destroy) secret_key_t *key = NULL;
    char path[] = "/tmp/postern-key-XXXXXX", *sealed, *plain;
    size_t len;

    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(secret_key_load(&key, path), 0);
    sealed = secret_seal(key, "canary", 6);
    cr_assert_eq(secret_open(key, sealed, &plain, &len), 0);
    cr_assert_str_eq(plain, "canary");
    secret_free(&plain, len);
    for (size_t i = 0; sealed[i]; i++) {
        char was = sealed[i];

        sealed[i] = was == 'A' ? 'B' : 'A';
        cr_assert_neq(secret_open(key, sealed, &plain, &len), 0, "byte %zu", i);
        sealed[i] = was;
    }
    free(sealed);
    unlink(path);
}

Test(events, types_are_those_of_the_kinds_and_of_the_table)
{
    bool traffic;

    cr_assert(event_type_known("api_key_created.v0", &traffic) && !traffic);
    cr_assert(event_type_known("domain_updated.v0", &traffic) && !traffic);
    cr_assert(event_type_known("agent_session_stop.v0", &traffic) && !traffic);
    cr_assert(event_type_known("http_request_complete.v0", &traffic) && traffic);
    cr_assert(!event_type_known("tunnel_created.v0", &traffic), "agents bring tunnels");
    cr_assert(!event_type_known("api_key_created", &traffic));
    cr_assert(!event_type_known("", &traffic));
    cr_assert(event_field("http_request_complete.v0", "conn.client_ip")->flags & FIELD_FILTER);
    cr_assert_not(event_field("http_request_complete.v0", "http.request.method")->flags
                  & FIELD_FILTER);
    cr_assert_not_null(event_field("tcp_connection_closed.v0", "conn.bytes_in"));
    cr_assert_null(event_field("tcp_connection_closed.v0", "http.request.method"));
    cr_assert_null(event_field("nonsense", "conn.client_ip"));
}
