#include "services/edge/modules/webhook.h"

#include "services/edge/modules/webhook_answer.h"
#include "services/edge/modules/webhook_content.h"
#include "services/edge/modules/webhook_header.h"
#include "services/edge/modules/webhook_json.h"
#include "services/edge/modules/webhook_sns.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <string.h>

enum { ID_LEN_MAX = 256 };

struct webhook {
    const webhook_provider_t *first; /* of the sender's rows */
    EVP_PKEY *public;
    bool beyond;
    size_t key_len, key_room;
    unsigned char key[];
};

static void secret_wipe(char *secret)
{
    if (secret)
        OPENSSL_cleanse(secret, strlen(secret));
    slab_free(secret);
}

void *webhook_parse(const msgpack_object *document, bool *bad)
{
    char *provider = document_str(document, "provider", bad),
         *secret = document_str(document, "secret", bad);
    const webhook_provider_t *first = provider ? webhook_provider_find(provider) : NULL;
    size_t room = webhook_key_room(secret ? secret : "");
    webhook_t *self = slab_alloc(sizeof(*self) + room);

    slab_free(provider);
    self->first = first;
    self->key_room = room;
    *bad = *bad || !first;
    self->beyond = !first || webhook_provider_refusal(first)
                   || !webhook_key_make(first, secret ? secret : "", self->key, &self->key_len);
    if (!self->beyond && first->scheme == WEBHOOK_ECDSA_P256) {
        const unsigned char *at = self->key;

        self->public = d2i_PUBKEY(NULL, &at, (long)self->key_len);
        self->beyond = !self->public;
    }
    secret_wipe(secret);
    return self;
}

void webhook_free(void *config)
{
    webhook_t *self = config;

    EVP_PKEY_free(self->public);
    OPENSSL_cleanse(self->key, self->key_room);
    slab_free(self);
}

bool webhook_beyond(const void *config)
{
    const webhook_t *self = config;

    return self->beyond;
}

bool webhook_same(const webhook_t *one, const webhook_t *other)
{
    return one->first == other->first && one->key_len == other->key_len
           && CRYPTO_memcmp(one->key, other->key, one->key_len) == 0;
}

const webhook_provider_t *webhook_provider(const webhook_t *self)
{
    return self->first;
}

/* Takes the next name off a list of them; a name that ends in -# stands for -1 to -8, of which n is
 * the one that is meant, written to numbered. */
static bool take_name(const char **list, unsigned *n, char numbered[64], webhook_text_t *out)
{
    size_t len = strcspn(*list, " ");

    if (!len)
        return false;
    *out = (webhook_text_t){*list, len};
    if (len < 64 && (*list)[len - 1] == '#') {
        memcpy(numbered, *list, len);
        numbered[len - 1] = (char)('1' + *n);
        out->at = numbered;
        *n = (*n + 1) % 8;
        if (*n)
            return true;
    }
    *list += len + ((*list)[len] ? 1 : 0);
    return true;
}

/* The signatures that the headers of a row have. */
static webhook_verdict_t read_signatures(const webhook_provider_t *row,
                                         const webhook_request_t *request, webhook_claims_t *claims)
{
    webhook_text_t name, values[WEBHOOK_SIGNATURES_MAX];
    const char *list = row->headers;
    size_t headers = 0;
    unsigned number = 0;
    char numbered[64];

    while (take_name(&list, &number, numbered, &name)) {
        size_t count = request->headers(request->arg, name, values, WEBHOOK_SIGNATURES_MAX);

        if (count > WEBHOOK_SIGNATURES_MAX)
            return WEBHOOK_MALFORMED;
        for (size_t i = 0; i < count; i++) {
            headers++;
            claims->header = values[i];
            if (!webhook_header_marked(values[i], row->separator, row->mark, claims->signatures,
                                       &claims->count))
                return WEBHOOK_MALFORMED;
        }
    }
    if (!headers)
        return WEBHOOK_UNSIGNED;
    /* Items beside signatures, as a time, are read from one header. */
    return claims->count && (headers == 1 || !row->separator || !row->time) ? WEBHOOK_VERIFIED
                                                                            : WEBHOOK_MALFORMED;
}

/* What stands in a header, an item of the signature's header or the body's JSON. */
static webhook_verdict_t read_claim(const webhook_provider_t *row, const char *where,
                                    const webhook_request_t *request,
                                    const webhook_claims_t *claims, webhook_text_t *out)
{
    webhook_text_t body = {request->body, request->body_len};
    size_t len = strlen(where);
    bool found;

    if (*where == '.' && !request->body)
        return WEBHOOK_NEEDS_BODY;
    if (*where == '.')
        found = webhook_json_plain(body, where, out);
    else if (where[len - 1] == '=')
        found = webhook_header_item(claims->header, row->separator, where, out);
    else
        found = webhook_header_only(request, (webhook_text_t){where, len}, out);
    return found && out->len ? WEBHOOK_VERIFIED : WEBHOOK_MALFORMED;
}

/* An id stands beside other parts of what is signed. With a point it could take the place of those
 * that follow it, the time among them. */
static webhook_verdict_t read_id(const webhook_provider_t *row, const webhook_request_t *request,
                                 webhook_claims_t *claims)
{
    webhook_verdict_t verdict = read_claim(row, row->id, request, claims, &claims->id);

    if (verdict != WEBHOOK_VERIFIED)
        return verdict;
    if (claims->id.len > ID_LEN_MAX || memchr(claims->id.at, '.', claims->id.len))
        return WEBHOOK_MALFORMED;
    return WEBHOOK_VERIFIED;
}

static webhook_verdict_t check_time(const webhook_provider_t *row, const webhook_request_t *request,
                                    webhook_claims_t *claims)
{
    webhook_verdict_t verdict = read_claim(row, row->time, request, claims, &claims->time);
    int64_t at, apart;

    if (verdict != WEBHOOK_VERIFIED)
        return verdict;
    if (!webhook_time_parse(claims->time, row->unit, &at))
        return WEBHOOK_MALFORMED;
    apart = request->now_ms > at ? request->now_ms - at : at - request->now_ms;
    return apart > (int64_t)row->tolerance_s * 1000 ? WEBHOOK_STALE : WEBHOOK_VERIFIED;
}

/* Headers that must be there once, with one value: "name=value name=value". */
static bool has_needs(const webhook_provider_t *row, const webhook_request_t *request)
{
    const char *at = row->needs ? row->needs : "";

    while (*at) {
        size_t name_len = strcspn(at, "="), len = strcspn(at, " ");
        webhook_text_t value;

        if (!webhook_header_only(request, (webhook_text_t){at, name_len}, &value)
            || value.len != len - name_len - 1
            || memcmp(value.at, at + name_len + 1, value.len) != 0)
            return false;
        at += len + (at[len] ? 1 : 0);
    }
    return true;
}

static webhook_verdict_t read_claims(const webhook_provider_t *row,
                                     const webhook_request_t *request, webhook_claims_t *claims)
{
    webhook_verdict_t verdict;

    if (*row->headers == '.') {
        verdict = read_claim(row, row->headers, request, claims, &claims->signatures[0]);
        claims->count = 1;
    } else {
        verdict = read_signatures(row, request, claims);
    }
    if (verdict == WEBHOOK_VERIFIED && !has_needs(row, request))
        verdict = WEBHOOK_MALFORMED;
    if (verdict == WEBHOOK_VERIFIED && row->id)
        verdict = read_id(row, request, claims);
    if (verdict == WEBHOOK_VERIFIED && row->time)
        verdict = check_time(row, request, claims);
    return verdict;
}

/* Is one of the signatures text? All are compared, each in constant time. */
static bool has_signature(const webhook_claims_t *claims, const void *text, size_t len)
{
    unsigned found = 0;

    for (size_t i = 0; i < claims->count; i++)
        found |= claims->signatures[i].len == len
                 && CRYPTO_memcmp(claims->signatures[i].at, text, len) == 0;
    return found;
}

/* The header has the secret. What is compared are digests, so that the time says nothing of its
 * length. */
static bool has_secret(const webhook_t *self, const webhook_claims_t *claims)
{
    unsigned char mine[crypto_hash_sha256_BYTES], theirs[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(mine, self->key, self->key_len);
    crypto_hash_sha256(theirs, (const unsigned char *)claims->signatures[0].at,
                       claims->signatures[0].len);
    return claims->count == 1 && CRYPTO_memcmp(mine, theirs, sizeof(mine)) == 0;
}

static bool has_mac(const webhook_provider_t *row, const webhook_claims_t *claims,
                    const unsigned char *sum, size_t len)
{
    char hex[2 * WEBHOOK_SUM_MAX + 1], base64[2 * WEBHOOK_SUM_MAX];
    bool has = false;

    sodium_bin2hex(hex, sizeof(hex), sum, len);
    sodium_bin2base64(base64, sizeof(base64), sum, len, sodium_base64_VARIANT_ORIGINAL);
    if (row->encoding != WEBHOOK_BASE64)
        has = has_signature(claims, hex, strlen(hex));
    if (row->encoding != WEBHOOK_HEX)
        has = has_signature(claims, base64, strlen(base64)) || has;
    return has;
}

static bool has_ecdsa(const webhook_t *self, const webhook_claims_t *claims,
                      const unsigned char *sum, size_t len)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(self->public, NULL);
    unsigned char signature[128];
    size_t size;
    bool is = claims->count == 1 && context && EVP_PKEY_verify_init(context) == 1
              && sodium_base642bin(signature, sizeof(signature), claims->signatures[0].at,
                                   claims->signatures[0].len, NULL, &size, NULL,
                                   sodium_base64_VARIANT_ORIGINAL)
                     == 0
              && EVP_PKEY_verify(context, signature, size, sum, len) == 1;

    EVP_PKEY_CTX_free(context);
    ERR_clear_error(); /* a signature that is wrong leaves one, which nginx would find */
    return is;
}

static webhook_verdict_t check_content(const webhook_t *self, const webhook_provider_t *row,
                                       const webhook_request_t *request,
                                       const webhook_claims_t *claims, bool portless)
{
    webhook_sum_t *sum = webhook_sum_begin(row->scheme, self->key, self->key_len);
    unsigned char out[WEBHOOK_SUM_MAX];
    bool can;
    size_t len;

    if (!sum)
        return WEBHOOK_MISMATCHED;
    can = webhook_content_add(row, request, claims, portless, sum);
    len = webhook_sum_end(sum, out);
    if (!can)
        return WEBHOOK_MALFORMED;
    if (!len)
        return WEBHOOK_MISMATCHED;
    return (row->scheme == WEBHOOK_ECDSA_P256 ? has_ecdsa(self, claims, out, len)
                                              : has_mac(row, claims, out, len))
               ? WEBHOOK_VERIFIED
               : WEBHOOK_MISMATCHED;
}

/* Senders differ in whether a port is of the URL that they sign: either may be meant. */
static bool names_port(const webhook_provider_t *row, const webhook_request_t *request)
{
    return (strstr(row->content, "%u") || strstr(row->content, "%U") || strstr(row->content, "%v"))
           && request->authority.len && memchr(request->authority.at, ':', request->authority.len);
}

static webhook_verdict_t judge_form(const webhook_t *self, const webhook_provider_t *row,
                                    const webhook_request_t *request, webhook_answer_t *answer)
{
    webhook_claims_t claims = {0};
    webhook_verdict_t verdict = read_claims(row, request, &claims);

    if (verdict != WEBHOOK_VERIFIED)
        return verdict;
    if (row->scheme == WEBHOOK_TOKEN || row->scheme == WEBHOOK_BASIC)
        return has_secret(self, &claims) ? WEBHOOK_VERIFIED : WEBHOOK_MISMATCHED;
    if (!request->body)
        return WEBHOOK_NEEDS_BODY;
    verdict = check_content(self, row, request, &claims, false);
    if (verdict == WEBHOOK_MISMATCHED && names_port(row, request))
        verdict = check_content(self, row, request, &claims, true);
    if (verdict == WEBHOOK_VERIFIED && !webhook_answer_apart(row, request))
        return WEBHOOK_MALFORMED;
    if (verdict == WEBHOOK_VERIFIED
        && webhook_answer_signed(row, self->key, self->key_len, request, answer))
        return WEBHOOK_ANSWERED;
    return verdict;
}

webhook_verdict_t webhook_judge(const webhook_t *self, const webhook_request_t *request,
                                webhook_answer_t *answer)
{
    const webhook_provider_t *row = self->first;
    webhook_verdict_t verdict;

    if (self->beyond)
        return WEBHOOK_MALFORMED;
    if (row->scheme == WEBHOOK_FETCHED_KEY)
        return webhook_sns_judge(row, request);
    if (webhook_answer_unsigned(row, self->key, self->key_len, request, answer))
        return WEBHOOK_ANSWERED;
    do {
        verdict = judge_form(self, row, request, answer);
    } while (verdict == WEBHOOK_UNSIGNED && (row = webhook_provider_next(row)));
    return verdict;
}
