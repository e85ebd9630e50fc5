/* Encrypted assertions where the private key is, without postern-saml: the key of the content is
 * opened, and what could not be opened looks the same. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "services/identity/person.h"
#include "services/identity/saml_internal.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <string.h>

static const unsigned char content_key[32] = "0123456789abcdef0123456789abcdef";

static char *base64_of(const unsigned char *bytes, size_t len)
{
    char *text = malloc(4 * (len / 3 + 1) + 1);

    EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
    return text;
}

static char *text_of(BIO *bio)
{
    char *bytes = NULL, *text;
    long len = BIO_get_mem_data(bio, &bytes);

    text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    return text;
}

static char *pem_of(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());

    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    return text_of(bio);
}

/* A content key of that many bytes, encrypted with OAEP for the key, as postern-saml says it. */
static json_t *wrap(EVP_PKEY *key, const char *digest, const char *mgf1, size_t bytes)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    unsigned char out[512];
    _cleanup_(free_mem) char *text = NULL;
    size_t len = sizeof(out);

    cr_assert_eq(EVP_PKEY_encrypt_init(ctx), 1);
    EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING);
    EVP_PKEY_CTX_set_rsa_oaep_md(ctx, EVP_get_digestbyname(digest));
    EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, EVP_get_digestbyname(mgf1));
    cr_assert_eq(EVP_PKEY_encrypt(ctx, out, &len, content_key, bytes), 1);
    EVP_PKEY_CTX_free(ctx);
    text = base64_of(out, len);
    return json_pack("{s:s, s:s, s:s, s:i}", "key", text, "digest", digest, "mgf1", mgf1, "bytes",
                     (int)bytes);
}

Test(saml_encryption, the_key_of_an_assertion_is_opened)
{
    static const struct {
        const char *digest, *mgf1;
        size_t bytes;
    } rows[] = {{"SHA1", "SHA1", 16},
                {"SHA256", "SHA1", 32},
                {"SHA256", "SHA256", 16},
                {"SHA1", "SHA256", 32}};
    EVP_PKEY *key = EVP_RSA_gen(2048);
    _cleanup_(free_mem) char *pem = pem_of(key);

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(json_clear_ref) json_t *encrypted =
            wrap(key, rows[i].digest, rows[i].mgf1, rows[i].bytes);
        _cleanup_(free_mem) char *want = base64_of(content_key, rows[i].bytes);
        _cleanup_(free_mem) char *got = saml_content_key(pem, NULL, encrypted);

        cr_assert(got, "row %zu", i);
        cr_assert_str_eq(got, want, "row %zu", i);
    }
    EVP_PKEY_free(key);
}

/* Before and after a rotation is promoted, whichever key the provider knows of. */
Test(saml_encryption, either_key_of_a_rotation_opens_it_and_no_third_one)
{
    EVP_PKEY *keys[] = {EVP_RSA_gen(2048), EVP_RSA_gen(2048), EVP_RSA_gen(2048)};
    _cleanup_(free_mem) char *one = pem_of(keys[0]), *two = pem_of(keys[1]);
    _cleanup_(free_mem) char *want = base64_of(content_key, 16);

    for (size_t i = 0; i < LEN(keys); i++) {
        _cleanup_(json_clear_ref) json_t *encrypted = wrap(keys[i], "SHA1", "SHA1", 16);
        _cleanup_(free_mem) char *both = saml_content_key(one, two, encrypted);
        _cleanup_(free_mem) char *turned = saml_content_key(two, one, encrypted);
        _cleanup_(free_mem) char *alone = saml_content_key(one, "", encrypted);
        _cleanup_(free_mem) char *dropped = saml_content_key("", two, encrypted);

        cr_assert_eq(!strcmp(both, want), i < 2, "key %zu", i);
        cr_assert_eq(!strcmp(turned, want), i < 2, "key %zu", i);
        cr_assert_eq(!strcmp(alone, want), i == 0, "key %zu", i);
        cr_assert_eq(!strcmp(dropped, want), i == 1, "key %zu", i);
    }
    for (size_t i = 0; i < LEN(keys); i++)
        EVP_PKEY_free(keys[i]);
}

/* Each of these would be an oracle if it were told from another. */
Test(saml_encryption, what_cannot_be_opened_is_a_random_key_of_the_same_length)
{
    EVP_PKEY *key = EVP_RSA_gen(2048), *other = EVP_RSA_gen(2048);
    _cleanup_(free_mem) char *pem = pem_of(key), *right = base64_of(content_key, 16);
    json_t *rows[6];

    rows[0] = wrap(other, "SHA1", "SHA1", 16);
    rows[1] = wrap(key, "SHA1", "SHA1", 16);
    json_object_set_new(rows[1], "digest", json_string("SHA256"));
    rows[2] = wrap(key, "SHA1", "SHA1", 16);
    json_object_set_new(rows[2], "mgf1", json_string("SHA256"));
    rows[3] = wrap(key, "SHA1", "SHA1", 32);
    json_object_set_new(rows[3], "bytes", json_integer(16));
    rows[4] = wrap(key, "SHA1", "SHA1", 15);
    json_object_set_new(rows[4], "bytes", json_integer(16));
    rows[5] = wrap(key, "SHA1", "SHA1", 16);
    json_object_set_new(rows[5], "key", json_string("AAAA"));
    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(free_mem) char *one = saml_content_key(pem, NULL, rows[i]);
        _cleanup_(free_mem) char *two = saml_content_key(pem, NULL, rows[i]);

        cr_assert(one && two, "row %zu", i);
        cr_assert_eq(strlen(one), strlen(right), "row %zu", i);
        cr_assert_str_neq(one, right, "row %zu", i);
        cr_assert_str_neq(one, two, "row %zu", i);
        json_decref(rows[i]);
    }
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
}

Test(saml_encryption, no_key_is_opened_where_the_question_or_the_key_is_none)
{
    EVP_PKEY *key = EVP_RSA_gen(2048), *ec = EVP_EC_gen("P-256");
    _cleanup_(free_mem) char *pem = pem_of(key), *ec_pem = pem_of(ec);
    static const struct {
        const char *name, *value; /* JSON */
    } bad[] = {{"key", "\"%%\""}, {"key", "1"},        {"digest", "\"MD5\""}, {"digest", "null"},
               {"mgf1", "\"\""},  {"bytes", "\"16\""}, {"bytes", "17"},       {"bytes", "-1"}};

    for (size_t i = 0; i < LEN(bad); i++) {
        _cleanup_(json_clear_ref) json_t *encrypted = wrap(key, "SHA1", "SHA1", 16);

        json_object_set_new(encrypted, bad[i].name,
                            json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
        cr_assert_null(saml_content_key(pem, NULL, encrypted), "row %zu", i);
    }
    for (int i = 0; i < 3; i++) {
        _cleanup_(json_clear_ref) json_t *encrypted = wrap(key, "SHA1", "SHA1", 16);

        cr_assert_null(saml_content_key(i == 0 ? "" : i == 1 ? ec_pem : "none", NULL, encrypted));
    }
    EVP_PKEY_free(key);
    EVP_PKEY_free(ec);
}

/* ---- the engine ---- */

static void *callback(const json_t *config, fetch_t *asked)
{
    _cleanup_(json_clear_ref) json_t *params = json_pack("{s:[s]}", "SAMLResponse", "PHg+");
    const provider_ask_t ask = {.config = config,
                                .module = "saml",
                                .account = "ac_1",
                                .redirect_uri = "https://h/saml/rt_1/acs",
                                .entity_id = "https://h/saml/rt_1",
                                .state = "rt_1.state",
                                .nonce = "AAAA",
                                .params = params,
                                .now_s = 1780000000};
    void *flow = NULL;

    cr_assert_eq(provider_saml.start(&flow, PROVIDER_CALLBACK, &ask), 0);
    cr_assert_eq(provider_saml.next(flow, NULL, asked), PROVIDER_FETCH);
    cr_assert_null(json_object_get(asked->question, "content_key"));
    return flow;
}

Test(saml_encryption, the_same_question_is_asked_again_with_the_key)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    _cleanup_(free_mem) char *pem = pem_of(key), *want = base64_of(content_key, 16);
    _cleanup_(json_clear_ref) json_t *config = json_pack("{s:s}", "encryption_key_pem", pem);
    _cleanup_(json_clear_ref) json_t *said =
        json_pack("{s:o}", "encrypted", wrap(key, "SHA1", "SHA1", 16));
    _cleanup_(json_clear_ref) json_t *first = NULL;
    const fetched_t answer = {.said = said}, refused = {.code = ERR_SAML_MESSAGE, .reason = "no"};
    fetch_t asked = {0};
    void *flow = callback(config, &asked);

    first = json_deep_copy(asked.question);
    cr_assert_eq(provider_saml.next(flow, &answer, &asked), PROVIDER_FETCH);
    cr_assert_str_eq(asked.verb, "saml.verify");
    cr_assert_str_eq(json_string_value(json_object_get(asked.question, "content_key")), want);
    json_object_del(asked.question, "content_key");
    cr_assert(json_equal(asked.question, first), "all else is the same");
    cr_assert_eq(provider_saml.next(flow, &refused, &asked), PROVIDER_INVALID);
    cr_assert_not(strstr(provider_saml.why(flow), want));
    provider_saml.free(&flow);

    flow = callback(config, &asked);
    cr_assert_eq(provider_saml.next(flow, &answer, &asked), PROVIDER_FETCH);
    cr_assert_eq(provider_saml.next(flow, &answer, &asked), PROVIDER_UNAVAILABLE, "once");
    provider_saml.free(&flow);
    EVP_PKEY_free(key);
}

Test(saml_encryption, what_is_encrypted_signs_nobody_in_where_the_route_has_no_key)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    _cleanup_(json_clear_ref) json_t *config = json_object();
    _cleanup_(json_clear_ref) json_t *said =
        json_pack("{s:o}", "encrypted", wrap(key, "SHA1", "SHA1", 16));
    const fetched_t answer = {.said = said};
    fetch_t asked = {0};
    void *flow = callback(config, &asked);

    cr_assert_eq(provider_saml.next(flow, &answer, &asked), PROVIDER_INVALID);
    cr_assert(strstr(provider_saml.why(flow), "no key for that"));
    provider_saml.free(&flow);
    EVP_PKEY_free(key);
}

/* ---- metadata ---- */

static char *certificate_of(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());

    X509_set_pubkey(certificate, key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_sign(certificate, key, EVP_sha256());
    PEM_write_bio_X509(bio, certificate);
    X509_free(certificate);
    return text_of(bio);
}

Test(saml_encryption, metadata_say_to_which_key_and_how_assertions_may_be_encrypted)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    _cleanup_(free_mem) char *pem = certificate_of(key), *with = NULL, *without = NULL;
    _cleanup_(json_clear_ref) json_t *config = json_pack(
        "{s:s, s:s}", "request_signing_certificate_pem", pem, "encryption_certificate_pem", pem);

    with = saml_metadata(config, "https://h/e", "https://h/acs", "https://h/slo");
    cr_assert(strstr(with, "</md:KeyDescriptor><md:KeyDescriptor use=\"encryption\">"), "%s", with);
    cr_assert(strstr(with, "Algorithm=\"http://www.w3.org/2009/xmlenc11#aes256-gcm\""));
    cr_assert(strstr(with, "rsa-oaep\"/></md:KeyDescriptor><md:SingleLogoutService")
              || strstr(with, "rsa-oaep-mgf1p\"/></md:KeyDescriptor><md:SingleLogoutService"));
    cr_assert_not(strstr(with, "cbc"));
    json_object_del(config, "encryption_certificate_pem");
    without = saml_metadata(config, "https://h/e", "https://h/acs", "https://h/slo");
    cr_assert(without && !strstr(without, "encryption"));
    json_object_set_new(config, "encryption_certificate_pem", json_string("none"));
    cr_assert_null(saml_metadata(config, "https://h/e", "https://h/acs", "https://h/slo"));
    EVP_PKEY_free(key);
}
