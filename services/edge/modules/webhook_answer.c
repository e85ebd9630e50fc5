#include "services/edge/modules/webhook_answer.h"
#include "services/edge/modules/webhook_fields.h"
#include "services/edge/modules/webhook_header.h"
#include "services/edge/modules/webhook_json.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES = 512 };

/* Letters, digits, and what base64, its form for URLs and UUIDs have beside them: no token can be
 * JSON, nor have a colon. */
static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!text[i]
            || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+/=",
                       text[i]))
            return false;
    return len > 0 && len < TOKEN_BYTES;
}

static bool say(webhook_answer_t *answer, const char *type, const char *text)
{
    answer->type = type;
    answer->len = strlen(text);
    memcpy(answer->body, text, answer->len);
    return true;
}

static bool answer_crc(const unsigned char *key, size_t len, const char *token,
                       webhook_answer_t *answer)
{
    unsigned char sum[WEBHOOK_SUM_MAX];
    char text[128], encoded[64];
    webhook_sum_t *mac = webhook_sum_begin(WEBHOOK_HMAC_SHA256, key, len);
    size_t sum_len;

    if (!mac)
        return false;
    webhook_sum_add(mac, token, strlen(token));
    sum_len = webhook_sum_end(mac, sum);
    if (!sum_len)
        return false;
    sodium_bin2base64(encoded, sizeof(encoded), sum, sum_len, sodium_base64_VARIANT_ORIGINAL);
    snprintf(text, sizeof(text), "{\"response_token\":\"sha256=%s\"}", encoded);
    return say(answer, "application/json", text);
}

static bool answer_get(const webhook_provider_t *row, const unsigned char *key, size_t len,
                       const webhook_request_t *request, webhook_answer_t *answer)
{
    static const char name[] = "X-GCS-Webhooks-Endpoint-Verification";
    char token[TOKEN_BYTES];
    webhook_text_t value;

    switch (row->hand) {
    case WEBHOOK_HAND_CHALLENGE:
        return webhook_query_field(request->target, "challenge", token, sizeof(token))
               && is_token(token, strlen(token)) && say(answer, "text/plain", token);
    case WEBHOOK_HAND_CRC:
        return webhook_query_field(request->target, "crc_token", token, sizeof(token))
               && is_token(token, strlen(token)) && answer_crc(key, len, token, answer);
    case WEBHOOK_HAND_ECHO_HEADER:
        if (!webhook_header_only(request, (webhook_text_t){name, sizeof(name) - 1}, &value)
            || !is_token(value.at, value.len))
            return false;
        memcpy(token, value.at, value.len);
        token[value.len] = '\0';
        return say(answer, "text/plain", token);
    default:
        return false;
    }
}

bool webhook_answer_unsigned(const webhook_provider_t *row, const unsigned char *key, size_t len,
                             const webhook_request_t *request, webhook_answer_t *answer)
{
    if (row->hand == WEBHOOK_HAND_HEAD) {
        *answer = (webhook_answer_t){0};
        return webhook_text_is(request->method, "HEAD");
    }
    return webhook_text_is(request->method, "GET") && answer_get(row, key, len, request, answer);
}

static bool answer_encrypted(const unsigned char *key, size_t len, webhook_text_t body,
                             webhook_answer_t *answer)
{
    unsigned char sum[WEBHOOK_SUM_MAX];
    char text[WEBHOOK_ANSWER_MAX], hex[2 * WEBHOOK_SUM_MAX + 1];
    webhook_text_t event, token;
    webhook_sum_t *mac;
    size_t sum_len;

    if (!webhook_json_plain(body, ".event", &event)
        || !webhook_text_is(event, "endpoint.url_validation")
        || !webhook_json_plain(body, ".payload.plainToken", &token)
        || !is_token(token.at, token.len))
        return false;
    mac = webhook_sum_begin(WEBHOOK_HMAC_SHA256, key, len);
    if (!mac)
        return false;
    webhook_sum_add(mac, token.at, token.len);
    sum_len = webhook_sum_end(mac, sum);
    if (!sum_len)
        return false;
    sodium_bin2hex(hex, sizeof(hex), sum, sum_len);
    snprintf(text, sizeof(text), "{\"plainToken\":\"%.*s\",\"encryptedToken\":\"%s\"}",
             (int)token.len, token.at, hex);
    return say(answer, "application/json", text);
}

bool webhook_answer_signed(const webhook_provider_t *row, const unsigned char *key, size_t len,
                           const webhook_request_t *request, webhook_answer_t *answer)
{
    webhook_text_t body = {request->body, request->body_len};

    switch (row->hand) {
    case WEBHOOK_HAND_INTENT:
        *answer = (webhook_answer_t){0};
        return webhook_json_empty(body, ".events");
    case WEBHOOK_HAND_ENCRYPT:
        return answer_encrypted(key, len, body, answer);
    default:
        return false;
    }
}

bool webhook_answer_apart(const webhook_provider_t *row, const webhook_request_t *request)
{
    return row->hand != WEBHOOK_HAND_CRC || (request->body_len && *request->body == '{');
}
