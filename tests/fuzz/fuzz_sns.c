/* Messages of Amazon SNS that strangers wrote. What is read of one is what another decoder reads,
 * jansson's, and nothing passes that the signer has not signed; a URL of a certificate is one to
 * libcurl, too, of the same host. */
#include "common/codec/signer.h"
#include "common/out/request.h"
#include "services/edge/modules/webhook_sns.h"

#include <jansson.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[WEBHOOK_SNS_FIELDS] = {
    "Message",  "MessageId", "Subject",   "SubscribeURL",     "Timestamp",      "Token",
    "TopicArn", "Type",      "Signature", "SignatureVersion", "SigningCertURL", "UnsubscribeURL"};

static void check(bool holds)
{
    if (!holds)
        abort();
}

typedef struct text {
    char *at;
    size_t len;
} text_t;

static void add(void *arg, const void *bytes, size_t len)
{
    text_t *self = arg;

    self->at = realloc(self->at, self->len + len + 1);
    if (len)
        memcpy(self->at + self->len, bytes, len);
    self->len += len;
}

/* The content as jansson reads the fields. */
static void content_of(json_t *message, text_t *out)
{
    for (int i = 0; i < WEBHOOK_SNS_SIGNED; i++) {
        json_t *value = json_object_get(message, names[i]);

        if (!value)
            continue;
        check(json_is_string(value));
        add(out, names[i], strlen(names[i]));
        add(out, "\n", 1);
        add(out, json_string_value(value), json_string_length(value));
        add(out, "\n", 1);
    }
}

static void try_message(webhook_text_t body)
{
    webhook_sns_t message;
    json_error_t error;
    text_t mine = {0}, theirs = {0};
    json_t *json;

    if (!webhook_sns_read(body, &message))
        return;
    json = json_loadb(body.at, body.len, JSON_ALLOW_NUL, &error);
    /* to others, numbers that no double has, names with a NUL and surrogates that stand alone are no
     * error */
    check(json || json_error_code(&error) == json_error_numeric_overflow
          || json_error_code(&error) == json_error_null_byte_in_key
          || (json_error_code(&error) == json_error_invalid_syntax
              && (memmem(body.at, body.len, "\\ud", 3) || memmem(body.at, body.len, "\\uD", 3))));
    if (webhook_sns_content(&message, add, &mine)) {
        if (json) {
            content_of(json, &theirs);
            check(mine.len == theirs.len && !memcmp(mine.at, theirs.at, mine.len));
        }
    } else {
        check(!json); /* a surrogate that stands alone */
    }
    json_decref(json);
    free(mine.at);
    free(theirs.at);
}

static void try_url(const char *text, size_t len)
{
    char copy[SIGNER_URL_MAX + 1], want[128], *host = NULL, *port = NULL, *path = NULL;
    signer_url_t url;
    CURLU *parsed = NULL;
    bool is_plain;

    if (!signer_url_read(text, len, &url))
        return;
    memcpy(copy, text, len);
    copy[len] = '\0';
    check(strlen(copy) == len);
    check(request_url(&parsed, copy, false, &is_plain) == 0 && !is_plain);
    snprintf(want, sizeof(want), "sns.%s.amazonaws.com%s", url.region, url.china ? ".cn" : "");
    check(!curl_url_get(parsed, CURLUPART_HOST, &host, 0) && !strcmp(host, want));
    check(curl_url_get(parsed, CURLUPART_PORT, &port, 0) == CURLUE_NO_PORT);
    check(!curl_url_get(parsed, CURLUPART_PATH, &path, 0)
          && !strcmp(path, copy + 8 + strlen(want)));
    curl_free(host);
    curl_free(path);
    curl_url_cleanup(parsed);
}

static webhook_verdict_t find_key(void *arg, const char *url, EVP_PKEY **ret_key)
{
    static EVP_PKEY *key;

    (void)arg;
    if (!key)
        key = EVP_RSA_gen(2048);
    try_url(url, strlen(url));
    *ret_key = key;
    return WEBHOOK_VERIFIED;
}

static size_t no_headers(void *arg, webhook_text_t name, webhook_text_t *out, size_t max)
{
    (void)arg;
    (void)name;
    (void)out;
    (void)max;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* of this length, so that a read beyond it is found */
    webhook_request_t request = {
        .method = {"POST", 4},
        .body = copy,
        .body_len = size,
        .now_ms = 1382111100000,
        .headers = no_headers,
        .key = find_key,
    };

    if (size)
        memcpy(copy, data, size);
    try_message((webhook_text_t){copy, size});
    try_url(copy, size);
    check(webhook_sns_judge(webhook_provider_find("sns"), &request) != WEBHOOK_VERIFIED);
    free(copy);
    return 0;
}
