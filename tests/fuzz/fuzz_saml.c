/* A SAML message, as a child of postern-xml reads it, with a provider's metadata (tests/unit/saml).
 * Nobody here has its keys: what is accepted says what it said when it was signed. */
#include "common/base/cleanup.h"
#include "services/xml/answer.h"
#include "services/xml/assertion.h"
#include "services/xml/message.h"
#include "services/xml/metadata.h"
#include "services/xml/verify.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS 1780000000000
#define ACS    "https://idp.example.test/saml/acs"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char metadata[64 << 10];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    FILE *file = fopen("tests/unit/saml/metadata.xml", "r");

    (void)argc;
    (void)argv;
    if (!file || !fread(metadata, 1, sizeof(metadata) - 1, file) || answer_start())
        abort();
    fclose(file);
    return 0;
}

static char *base64_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size / 3 * 4 + 5);

    EVP_EncodeBlock((unsigned char *)text, data, (int)size);
    return text;
}

/* A key of a content, 16 times "k". */
#define CONTENT_KEY "a2tra2tra2tra2tra2traw=="

static void verify(const char *kind, const char *content_key, const uint8_t *data, size_t size)
{
    _cleanup_(free_mem) char *text = base64_of(data, size);
    bool is_response = !strcmp(kind, "response");
    _cleanup_(json_clear_ref) json_t *body = json_pack(
        "{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s, s:I, s:I}}", "metadata", metadata, "message",
        text, "binding", "post", "expect", "kind", kind, "destination",
        is_response ? ACS : "https://idp.example.test/saml/slo", "recipient", ACS, "audience",
        "https://idp.example.test/saml/rt_1", "in_response_to", is_response ? "_request1" : "",
        "now_ms", (json_int_t)NOW_MS, "skew_ms", (json_int_t)60000);
    _cleanup_(json_clear_ref) json_t *answer = NULL;
    _cleanup_(problem_done) problem_t problem = {0};

    if (content_key)
        json_object_set_new(body, "content_key", json_string(content_key));
    if (verify_message(body, &answer, &problem) == 0 && !json_object_get(answer, "encrypted")
        && strcmp(json_string_value(json_object_get(answer, "name_id")), "user@example.test") != 0)
        abort();
}

/* The octets as what an EncryptedAssertion has in it: whoever has a certificate can encrypt. */
static void verify_encrypted(const uint8_t *data, size_t size)
{
    static const unsigned char key[] = "kkkkkkkkkkkkkkkk";
    _cleanup_(free_mem) unsigned char *bytes = calloc(1, size + 28);
    _cleanup_(free_mem) char *content = NULL, *text = NULL;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0, rest;

    EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, key, bytes);
    EVP_EncryptUpdate(ctx, bytes + 12, &n, data, (int)size);
    EVP_EncryptFinal_ex(ctx, bytes + 12 + n, &rest);
    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, bytes + 12 + n);
    EVP_CIPHER_CTX_free(ctx);
    content = base64_of(bytes, size + 28);
    if (asprintf(&text,
                 "<p:Response xmlns:p=\"urn:oasis:names:tc:SAML:2.0:protocol\" "
                 "xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" "
                 "xmlns:x=\"http://www.w3.org/2001/04/xmlenc#\" ID=\"_r\" Version=\"2.0\" "
                 "IssueInstant=\"2026-05-28T20:26:40Z\" Destination=\"" ACS "\" "
                 "InResponseTo=\"_request1\"><p:Status><p:StatusCode "
                 "Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></p:Status>"
                 "<saml:EncryptedAssertion><x:EncryptedData><x:EncryptionMethod "
                 "Algorithm=\"http://www.w3.org/2009/xmlenc11#aes128-gcm\"/><x:CipherData>"
                 "<x:CipherValue>%s</x:CipherValue></x:CipherData></x:EncryptedData>"
                 "<x:EncryptedKey><x:EncryptionMethod "
                 "Algorithm=\"http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p\"/><x:CipherData>"
                 "<x:CipherValue>AAAA</x:CipherValue></x:CipherData></x:EncryptedKey>"
                 "</saml:EncryptedAssertion></p:Response>",
                 content)
        > 0)
        verify("response", CONTENT_KEY, (const uint8_t *)text, strlen(text));
}

/* The rules of an assertion, as if it had been signed. */
static void judge_unsigned(const char *text, size_t size)
{
    static const expect_t expect = {.destination = ACS,
                                    .recipient = ACS,
                                    .audience = "https://idp.example.test/saml/rt_1",
                                    .in_response_to = "_request1",
                                    .nameid_format = "",
                                    .now_ms = NOW_MS};
    _cleanup_(document_free) xmlDocPtr document = NULL;
    _cleanup_(json_clear_ref) json_t *answer = json_object();
    _cleanup_(problem_done) problem_t problem = {0};
    message_t message;

    if (document_read(text, size, &document_message, &document, &problem) == 0
        && message_scan(&message, document, NS_PROTOCOL, "Response", &problem) == 0
        && message.assertion)
        assertion_judge(message.assertion, &expect, "https://idp.example.com/metadata", answer,
                        &problem);
}

static void describe(const char *text, size_t size)
{
    _cleanup_(metadata_done) metadata_t read = {0};
    _cleanup_(problem_done) problem_t problem = {0};

    if (metadata_read(&read, text, size, &problem) == 0)
        json_decref(metadata_describe(&read));
}

/* The first byte says what the others are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(free_mem) char *text = size ? calloc(1, size) : NULL;
    msgpack_sbuffer out;

    if (!size)
        return 0;
    memcpy(text, data + 1, size - 1);
    switch (*data) {
    case 'r':
        verify("response", NULL, data + 1, size - 1);
        break;
    case 'k':
        verify("response", CONTENT_KEY, data + 1, size - 1);
        break;
    case 'e':
        verify_encrypted(data + 1, size - 1);
        break;
    case 'l':
        verify("logout_request", NULL, data + 1, size - 1);
        break;
    case 'u':
        judge_unsigned(text, size - 1);
        break;
    case 'm':
        describe(text, size - 1);
        break;
    default: /* msgpack, as it comes from postern-saml */
        msgpack_sbuffer_init(&out);
        answer_question(data, size, &out);
        msgpack_sbuffer_destroy(&out);
    }
    return 0;
}
