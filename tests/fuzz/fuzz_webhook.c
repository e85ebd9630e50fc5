/* webhook_verification: requests that strangers wrote, against every provider. Who does not have the
 * secret passes nowhere, whatever is sent; and no body makes a request pass that its head denies. */
#include "services/edge/modules/webhook.h"
#include "services/edge/modules/webhook_fields.h"
#include "services/edge/modules/webhook_header.h"
#include "services/edge/modules/webhook_json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
#define PROVIDER(name, ...) name,
#include "proto/webhook_providers.def"
};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void check(bool holds)
{
    if (!holds)
        abort();
}

static msgpack_object text_of(const char *text)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_STR};

    object.via.str.ptr = text;
    object.via.str.size = (uint32_t)strlen(text);
    return object;
}

static webhook_t *webhook_of(const char *provider)
{
    msgpack_object document = {.type = MSGPACK_OBJECT_MAP};
    const webhook_provider_t *row = webhook_provider_find(provider);
    const char *secret = "cGVyaGFwcyB0aGUgbGFzdCBzZWNyZXQgaW4gdGhlIHdvcmxk";
    msgpack_object_kv pairs[2];
    bool bad = false;
    webhook_t *self;

    if (row->key == WEBHOOK_KEY_PAIR)
        secret = "perhaps::the last pair in the world";
    if (row->key == WEBHOOK_KEY_NONE)
        secret = "";
    if (row->key == WEBHOOK_KEY_PUBLIC)
        secret =
            "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmY/"
            "z3YvsMZOuBsFGoG8goS2Dzjsuuk93hsCnF0amQfODUs0+KRyWfmDFHd2UY73acROUnA9YtHLEE6DPVZPJyQ==";
    pairs[0] = (msgpack_object_kv){text_of("provider"), text_of(provider)};
    pairs[1] = (msgpack_object_kv){text_of("secret"), text_of(secret)};
    document.via.map.size = 2;
    document.via.map.ptr = pairs;
    self = webhook_parse(&document, &bad);
    check(!bad && webhook_beyond(self) == (webhook_provider_refusal(row) != NULL));
    return self;
}

/* The first line is the target, the others are headers, as far as an empty line; then the body. */
typedef struct input {
    webhook_text_t head;
    webhook_text_t target, body;
} input_t;

static webhook_text_t take_line(webhook_text_t *text)
{
    const char *end = text->len ? memchr(text->at, '\n', text->len) : NULL;
    webhook_text_t line = {text->at, end ? (size_t)(end - text->at) : text->len};

    text->at += line.len + (end ? 1 : 0);
    text->len -= line.len + (end ? 1 : 0);
    return line;
}

static size_t find_headers(void *arg, webhook_text_t name, webhook_text_t *out, size_t max)
{
    webhook_text_t rest = ((input_t *)arg)->head;
    size_t n = 0;

    while (rest.len) {
        webhook_text_t line = take_line(&rest);

        if (line.len <= name.len || line.at[name.len] != ':'
            || strncasecmp(line.at, name.at, name.len) != 0)
            continue;
        if (n < max)
            out[n] = (webhook_text_t){line.at + name.len + 1, line.len - name.len - 1};
        n++;
    }
    return n;
}

/* The signers of those whose keys are fetched are tests/fuzz/fuzz_sns.c's. */
static webhook_verdict_t find_key(void *arg, const char *url, EVP_PKEY **ret_key)
{
    (void)arg;
    (void)url;
    (void)ret_key;
    return WEBHOOK_UNREACHED;
}

static void try_provider(const char *provider, input_t *input, const char *method, int64_t now_ms)
{
    webhook_t *self = webhook_of(provider);
    webhook_answer_t answer;
    webhook_request_t request = {
        .method = {method, strlen(method)},
        .authority = {"fuzz.test:8443", 14},
        .target = input->target,
        .type = {"application/x-www-form-urlencoded", 33},
        .now_ms = now_ms,
        .headers = find_headers,
        .key = find_key,
        .arg = input,
    };
    webhook_verdict_t head = webhook_judge(self, &request, &answer), whole;

    request.body = input->body.len ? input->body.at : "";
    request.body_len = input->body.len;
    whole = webhook_judge(self, &request, &answer);
    check(head != WEBHOOK_VERIFIED && whole != WEBHOOK_VERIFIED && whole != WEBHOOK_NEEDS_BODY);
    check(head == WEBHOOK_NEEDS_BODY || head == whole);
    check(whole != WEBHOOK_ANSWERED || answer.len <= sizeof(answer.body));
    webhook_free(self);
}

static void try_parsers(webhook_text_t text)
{
    webhook_text_t out, items[WEBHOOK_SIGNATURES_MAX];
    webhook_fields_t fields;
    size_t count = 0;
    int64_t ms;

    for (int unit = WEBHOOK_S; unit <= WEBHOOK_ISO; unit++)
        if (webhook_time_parse(text, unit, &ms))
            check(ms >= 0 || unit == WEBHOOK_ISO);
    if (webhook_json_plain(text, ".a.b", &out))
        check(out.at > text.at && out.at + out.len < text.at + text.len);
    webhook_json_empty(text, ".a");
    webhook_header_marked(text, ',', "v1=", items, &count);
    check(count <= WEBHOOK_SIGNATURES_MAX);
    if (webhook_fields_read(&fields, text, true))
        check(fields.count <= WEBHOOK_FIELDS_MAX);
    webhook_fields_free(&fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size); /* of this length, so that a read beyond it is found */
    webhook_text_t rest;
    input_t input;

    if (size < 3) {
        free(copy);
        return 0;
    }
    memcpy(copy, data, size);
    rest = (webhook_text_t){copy + 2, size - 2};
    try_parsers(rest);
    input.target = take_line(&rest);
    input.head = rest;
    while (rest.len && *rest.at != '\n')
        take_line(&rest);
    input.head.len -= rest.len;
    take_line(&rest);
    input.body = rest;
    try_provider(names[data[0] % NAMES], &input, data[1] & 1 ? "GET" : "POST",
                 data[1] & 2 ? 1614265330000 : 0);
    free(copy);
    return 0;
}
