/* Bodies of requests: what is a document, and the thread that parses the large ones. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/codec/pack.h"
#include "services/gateway/documents.h"

#include <criterion/criterion.h>
#include <string.h>

struct body_case {
    const char *text;
    bool is_module;
    int code;
    const char *document; /* or what msg has in it */
};

Test(document, is_one_json_object)
{
    static const struct body_case cases[] = {
        {"{\"a\":1}", false, 0, "{\"a\":1}"},
        {"{\"id\":\"i\",\"edge_id\":\"e\",\"module\":{\"a\":1}}", true, 0, "{\"a\":1}"},
        {"{\"id\":\"i\",\"a\":1}", true, 0, "{\"a\":1}"},
        {"{\"module\":{\"a\":1},\"b\":2}", true, 0, "{\"module\":{\"a\":1},\"b\":2}"},
        {"{\"module\":{\"a\":1}}", false, 0, "{\"module\":{\"a\":1}}"},
        {"[]", false, ERR_BODY_UNPARSABLE, "not a JSON object"},
        {"", false, ERR_BODY_UNPARSABLE, "line 1, column 0"},
        {"{\"secret", false, ERR_BODY_UNPARSABLE, "line 1"},
        {"{\"a\":1,\"a\":2}", false, ERR_BODY_UNPARSABLE, "line 1"},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        json_t *document = NULL;
        char msg[DOCUMENT_MSG] = "";
        int r = document_parse(cases[i].text, strlen(cases[i].text), cases[i].is_module, &document,
                               msg);

        cr_assert_eq(r, cases[i].code, "%s: %d", cases[i].text, r);
        if (r) {
            cr_assert(strstr(msg, cases[i].document), "%s: %s", cases[i].text, msg);
        } else {
            _cleanup_(free_mem) char *text = json_dumps(document, JSON_COMPACT);

            cr_assert_str_eq(text, cases[i].document);
        }
        json_decref(document);
    }
}

Test(document, is_nested_as_deep_as_the_bus_carries_it)
{
    for (int depth = PACK_DEPTH_MAX - 2; depth <= PACK_DEPTH_MAX; depth++) {
        char text[200] = "{\"a\":", msg[DOCUMENT_MSG] = "";
        json_t *document = NULL;

        memset(text + 5, '[', (size_t)depth - 1);
        memset(text + 5 + depth - 1, ']', (size_t)depth - 1);
        strcat(text, "}");
        cr_assert_eq(document_parse(text, strlen(text), false, &document, msg),
                     depth < PACK_DEPTH_MAX ? 0 : ERR_BODY_UNPARSABLE, "%d", depth);
        json_decref(document);
    }
}

/* ---- the thread ---- */

enum { BODIES = 40 };

typedef struct seen {
    char names[BODIES + 1][64];
    int count, wanted;
} seen_t;

static void on_parsed(void *context, parsed_t *parsed)
{
    seen_t *seen = context;
    json_t *request = NULL;

    memcpy(seen->names[seen->count++], parsed->name, sizeof(parsed->name));
    if (parsed->code) {
        cr_assert_eq(parsed->code, ERR_BODY_UNPARSABLE);
        cr_assert(strstr(parsed->msg, "not JSON"));
        return;
    }
    cr_assert_eq(unpack_json(parsed->packed.data, parsed->packed.size, &request), 0);
    cr_assert_str_eq(json_string_value(json_object_get(request, "path")), parsed->name);
    cr_assert(json_is_object(json_object_get(request, "document")));
    json_decref(request);
}

static int end_when_done(zloop_t *loop, int timer, void *context)
{
    seen_t *seen = context;

    (void)loop;
    (void)timer;
    return seen->count >= seen->wanted ? -1 : 0;
}

static void put(documents_t *documents, const char *account, const char *name, const char *text)
{
    body_t body = {0};
    json_t *rest = json_pack("{s:s}", "path", name);

    cr_assert_eq(body_add(&body, text, strlen(text)), 0);
    documents_put(documents, account, name, &body, false, &rest);
    cr_assert_null(body.bytes);
    cr_assert_null(rest);
}

Test(documents, of_one_account_are_one_wait_for_another)
{
    static seen_t seen = {.wanted = BODIES + 1};
    zloop_t *loop = zloop_new();
    documents_t *documents;
    char name[16], *large = calloc(1, 1000001);
    int at = 0;

    memcpy(large, "{\"a\":[", 6);
    for (size_t i = 6; i < 999998; i += 2)
        memcpy(large + i, i < 999996 ? "1," : "1]", 2);
    large[999998] = '}';
    cr_assert_eq(documents_new(&documents, loop, on_parsed, &seen), 0);
    for (int i = 0; i < BODIES; i++) {
        snprintf(name, sizeof(name), "%d", i);
        put(documents, "ac_many", name, i % 2 ? "{\"a\"" : large);
    }
    put(documents, "ac_one", "one", large);
    zloop_timer(loop, 5, 0, end_when_done, &seen);
    zloop_start(loop);
    cr_assert_eq(seen.count, BODIES + 1);
    cr_assert_eq(documents_waiting(documents), 0);
    while (strcmp(seen.names[at], "one"))
        at++;
    cr_assert_lt(at, BODIES, "it was the last");
    documents_destroy(&documents);
    zloop_destroy(&loop);
    free(large);
}

Test(documents, that_nobody_waits_for_end_with_the_thread)
{
    static seen_t seen;
    zloop_t *loop = zloop_new();
    documents_t *documents;

    cr_assert_eq(documents_new(&documents, loop, on_parsed, &seen), 0);
    for (int i = 0; i < BODIES; i++)
        put(documents, "ac_1", "x", "{}");
    documents_destroy(&documents);
    cr_assert_null(documents);
    cr_assert_eq(seen.count, 0);
    zloop_destroy(&loop);
}
