#include "services/edge/modules/webhook_sns.h"
#include "common/codec/signer.h"
#include "services/edge/modules/webhook_header.h"
#include "services/edge/modules/webhook_members.h"

#include <openssl/err.h>
#include <sodium.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64, SIGNATURE_MAX = 1024, HEADER_VALUES = 2 };

static const char *const names[WEBHOOK_SNS_FIELDS] = {
    [WEBHOOK_SNS_MESSAGE] = "Message",
    [WEBHOOK_SNS_MESSAGE_ID] = "MessageId",
    [WEBHOOK_SNS_SUBJECT] = "Subject",
    [WEBHOOK_SNS_SUBSCRIBE_URL] = "SubscribeURL",
    [WEBHOOK_SNS_TIMESTAMP] = "Timestamp",
    [WEBHOOK_SNS_TOKEN] = "Token",
    [WEBHOOK_SNS_TOPIC_ARN] = "TopicArn",
    [WEBHOOK_SNS_TYPE] = "Type",
    [WEBHOOK_SNS_SIGNATURE] = "Signature",
    [WEBHOOK_SNS_SIGNATURE_VERSION] = "SignatureVersion",
    [WEBHOOK_SNS_SIGNING_CERT_URL] = "SigningCertURL",
    [WEBHOOK_SNS_UNSUBSCRIBE_URL] = "UnsubscribeURL",
};

#define BIT(field) (1u << WEBHOOK_SNS_##field)

/* What a message of a type has: what it must, and what it may. Nothing else that has a name of
 * these may be there, because nobody would have signed it. */
static const struct {
    const char *type;
    unsigned must, may;
} types[] = {
    {"Notification",
     BIT(MESSAGE) | BIT(MESSAGE_ID) | BIT(TIMESTAMP) | BIT(TOPIC_ARN) | BIT(TYPE) | BIT(SIGNATURE)
         | BIT(SIGNATURE_VERSION) | BIT(SIGNING_CERT_URL),
     BIT(SUBJECT) | BIT(UNSUBSCRIBE_URL)},
    {"SubscriptionConfirmation",
     BIT(MESSAGE) | BIT(MESSAGE_ID) | BIT(SUBSCRIBE_URL) | BIT(TIMESTAMP) | BIT(TOKEN)
         | BIT(TOPIC_ARN) | BIT(TYPE) | BIT(SIGNATURE) | BIT(SIGNATURE_VERSION)
         | BIT(SIGNING_CERT_URL),
     BIT(UNSUBSCRIBE_URL)},
    {"UnsubscribeConfirmation",
     BIT(MESSAGE) | BIT(MESSAGE_ID) | BIT(SUBSCRIBE_URL) | BIT(TIMESTAMP) | BIT(TOKEN)
         | BIT(TOPIC_ARN) | BIT(TYPE) | BIT(SIGNATURE) | BIT(SIGNATURE_VERSION)
         | BIT(SIGNING_CERT_URL),
     BIT(UNSUBSCRIBE_URL)},
};

/* ---- texts ---- */

typedef struct buffer {
    char *at;
    size_t len, size;
    bool full;
} buffer_t;

static void add_to_buffer(void *arg, const void *bytes, size_t len)
{
    buffer_t *self = arg;

    if (len > self->size - self->len) {
        self->full = true;
        return;
    }
    if (len)
        memcpy(self->at + self->len, bytes, len);
    self->len += len;
}

/* What a string stands for, without a NUL in it, and ended by one. False: it is longer. */
static bool decode_text(webhook_text_t string, char *out, size_t size)
{
    buffer_t buffer = {.at = out, .size = size - 1};

    if (!webhook_string_decode(string, add_to_buffer, &buffer) || buffer.full
        || memchr(out, '\0', buffer.len))
        return false;
    out[buffer.len] = '\0';
    return true;
}

/* ---- reading ---- */

/* Takes a character as decoders fold it: Go's, for one, take U+017F for an s and U+212A for a k. */
static char take_folded(const char **at)
{
    char c = *(*at)++;

    if (c == '\xc5' && **at == '\xbf') {
        (*at)++;
        return 's';
    }
    if (c == '\xe2' && (*at)[0] == '\x84' && (*at)[1] == '\xaa') {
        *at += 2;
        return 'k';
    }
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_folded(const char *text, const char *name)
{
    while (*text && *name)
        if (take_folded(&text) != take_folded(&name))
            return false;
    return !*text && !*name;
}

static bool take_field(void *arg, webhook_text_t name, webhook_text_t value)
{
    webhook_sns_t *self = arg;
    char text[NAME_MAX_BYTES];

    if (!decode_text(name, text, sizeof(text)))
        return true; /* longer than any, or with a character that none has */
    for (int i = 0; i < WEBHOOK_SNS_FIELDS; i++) {
        if (!is_folded(text, names[i]))
            continue;
        if (strcmp(text, names[i]) != 0 || self->fields[i].at || *value.at != '"')
            return false;
        self->fields[i] = (webhook_text_t){value.at + 1, value.len - 2};
    }
    return true;
}

bool webhook_sns_read(webhook_text_t body, webhook_sns_t *out)
{
    unsigned has = 0;

    *out = (webhook_sns_t){0};
    if (!webhook_members_read(body, take_field, out))
        return false;
    for (int i = 0; i < WEBHOOK_SNS_FIELDS; i++)
        has |= out->fields[i].at ? 1u << i : 0;
    for (size_t i = 0; has & BIT(TYPE) && i < sizeof(types) / sizeof(types[0]); i++)
        if (webhook_text_is(out->fields[WEBHOOK_SNS_TYPE], types[i].type))
            return (has & types[i].must) == types[i].must
                   && !(has & ~(types[i].must | types[i].may));
    return false;
}

/* ---- the signature ---- */

static void find_control(void *arg, const void *bytes, size_t len)
{
    bool *found = arg;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = ((const unsigned char *)bytes)[i];

        *found = *found || c < 0x20 || c == 0x7f;
    }
}

/* What is signed has names and values in lines, without their lengths: of what somebody has signed
 * as a text of several lines, the other fields of a message could be made. Signers write a line's
 * end into no field but the message. */
static bool has_control(const webhook_sns_t *self)
{
    bool found = false;

    for (int i = 0; i < WEBHOOK_SNS_SIGNED; i++)
        if (i != WEBHOOK_SNS_MESSAGE && self->fields[i].at
            && !webhook_string_decode(self->fields[i], find_control, &found))
            return true;
    return found;
}

bool webhook_sns_content(const webhook_sns_t *self,
                         void (*add)(void *arg, const void *bytes, size_t len), void *arg)
{
    for (int i = 0; i < WEBHOOK_SNS_SIGNED; i++) {
        if (!self->fields[i].at)
            continue;
        add(arg, names[i], strlen(names[i]));
        add(arg, "\n", 1);
        if (!webhook_string_decode(self->fields[i], add, arg))
            return false;
        add(arg, "\n", 1);
    }
    return true;
}

typedef struct sum {
    EVP_MD_CTX *context;
    bool failed;
} sum_t;

static void add_to_sum(void *arg, const void *bytes, size_t len)
{
    sum_t *self = arg;

    self->failed = self->failed || EVP_DigestVerifyUpdate(self->context, bytes, len) != 1;
}

/* NULL: there is no such version. */
static const EVP_MD *digest_of(const webhook_sns_t *self)
{
    webhook_text_t version = self->fields[WEBHOOK_SNS_SIGNATURE_VERSION];

    return webhook_text_is(version, "1")   ? EVP_sha1()
           : webhook_text_is(version, "2") ? EVP_sha256()
                                           : NULL;
}

/* Bytes of the signature; 0: it is no base64. */
static size_t decode_signature(const webhook_sns_t *self, unsigned char out[SIGNATURE_MAX])
{
    webhook_text_t text = self->fields[WEBHOOK_SNS_SIGNATURE];
    size_t len = 0;

    return sodium_base642bin(out, SIGNATURE_MAX, text.at, text.len, NULL, &len, NULL,
                             sodium_base64_VARIANT_ORIGINAL)
                   == 0
               ? len
               : 0;
}

bool webhook_sns_signed(const webhook_sns_t *self, EVP_PKEY *key)
{
    const EVP_MD *digest = digest_of(self);
    unsigned char signature[SIGNATURE_MAX];
    size_t len = decode_signature(self, signature);
    sum_t sum = {.context = EVP_MD_CTX_new()};
    bool is = digest && len && sum.context && EVP_PKEY_is_a(key, "RSA")
              && EVP_DigestVerifyInit(sum.context, NULL, digest, NULL, key) == 1
              && webhook_sns_content(self, add_to_sum, &sum) && !sum.failed
              && EVP_DigestVerifyFinal(sum.context, signature, len) == 1;

    EVP_MD_CTX_free(sum.context);
    ERR_clear_error(); /* a signature that is wrong leaves one, which nginx would find */
    return is;
}

/* ---- a request ---- */

/* Is a header that repeats a field not there, or once, as the field is? at NULL: not there. */
static bool header_agrees(const webhook_request_t *request, const char *name, webhook_text_t field)
{
    webhook_text_t values[HEADER_VALUES];
    size_t count =
        request->headers(request->arg, (webhook_text_t){name, strlen(name)}, values, HEADER_VALUES);

    return !count
           || (count == 1 && field.at && values[0].len == field.len
               && memcmp(values[0].at, field.at, field.len) == 0);
}

/* Applications look at headers before they read the message, so they must say what was signed. What
 * is delivered raw has no signature, so nothing that has one says so. */
static bool has_headers(const webhook_request_t *request, const webhook_sns_t *message)
{
    return header_agrees(request, "x-amz-sns-message-type", message->fields[WEBHOOK_SNS_TYPE])
           && header_agrees(request, "x-amz-sns-topic-arn", message->fields[WEBHOOK_SNS_TOPIC_ARN])
           && header_agrees(request, "x-amz-sns-message-id",
                            message->fields[WEBHOOK_SNS_MESSAGE_ID])
           && header_agrees(request, "x-amz-sns-rawdelivery", (webhook_text_t){NULL, 0});
}

static webhook_verdict_t check_time(const webhook_provider_t *row, const webhook_request_t *request,
                                    const webhook_sns_t *message)
{
    int64_t at, apart;

    if (!webhook_time_parse(message->fields[WEBHOOK_SNS_TIMESTAMP], row->unit, &at))
        return WEBHOOK_MALFORMED;
    apart = request->now_ms > at ? request->now_ms - at : at - request->now_ms;
    return apart > (int64_t)row->tolerance_s * 1000 ? WEBHOOK_STALE : WEBHOOK_VERIFIED;
}

webhook_verdict_t webhook_sns_judge(const webhook_provider_t *row, const webhook_request_t *request)
{
    webhook_text_t body = {request->body, request->body_len};
    char url[SIGNER_URL_MAX + 1];
    unsigned char signature[SIGNATURE_MAX];
    webhook_sns_t message;
    webhook_verdict_t verdict;
    signer_url_t parts;
    EVP_PKEY *key = NULL;

    if (!webhook_text_is(request->method, "POST"))
        return WEBHOOK_MALFORMED;
    if (!request->body)
        return WEBHOOK_NEEDS_BODY;
    if (!webhook_sns_read(body, &message))
        return WEBHOOK_UNSIGNED;
    if (!has_headers(request, &message) || has_control(&message) || !digest_of(&message)
        || !decode_signature(&message, signature)
        || !decode_text(message.fields[WEBHOOK_SNS_SIGNING_CERT_URL], url, sizeof(url))
        || !signer_url_read(url, strlen(url), &parts))
        return WEBHOOK_MALFORMED;
    verdict = check_time(row, request, &message);
    if (verdict == WEBHOOK_VERIFIED)
        verdict = request->key(request->arg, url, &key);
    if (verdict == WEBHOOK_VERIFIED && !webhook_sns_signed(&message, key))
        verdict = WEBHOOK_MISMATCHED;
    return verdict;
}
