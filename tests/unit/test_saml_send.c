/* Requests of SAML on their way to a provider: by which binding, and the signature of one that is
 * posted. That it holds is for others to say (tests/e2e/saml-post.test.mjs). */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "services/identity/saml_internal.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

#define XML                                                                                        \
    "<samlp:X xmlns:samlp=\"" SAML_PROTOCOL                                                        \
    "\" ID=\"_1\"><saml:Issuer xmlns:saml=\"" SAML_ASSERTION                                       \
    "\">e</saml:Issuer><samlp:Y></samlp:Y></samlp:X>"

static char *pem_of(EVP_PKEY *key, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *text;
    long len;

    if (certificate)
        PEM_write_bio_X509(bio, certificate);
    else
        PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    len = BIO_get_mem_data(bio, &bytes);
    text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    return text;
}

static void make_pair(char **ret_key, char **ret_certificate)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    X509 *certificate = X509_new();

    X509_set_pubkey(certificate, key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_sign(certificate, key, EVP_sha256());
    *ret_key = pem_of(key, NULL);
    *ret_certificate = pem_of(NULL, certificate);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

Test(saml_send, a_message_is_posted_or_redirected_and_never_without_a_good_key)
{
    _cleanup_(free_mem) char *key = NULL, *certificate = NULL;
    const char *const pems[] = {"", "none", NULL};

    make_pair(&key, &certificate);
    for (int is_post = 0; is_post < 2; is_post++) {
        const saml_sending_t good = {.is_post = is_post,
                                     .destination = "https://x.test/sso?a=b",
                                     .relay_state = "s&",
                                     .key_pem = key,
                                     .certificate_pem = certificate,
                                     .id = "_1"};
        _cleanup_(json_clear_ref) json_t *way = saml_deliver(&good, XML, strlen(XML));
        const json_t *post = json_object_get(way, "post");

        cr_assert_eq(json_object_size(way), 1);
        cr_assert_eq(post != NULL, is_post);
        cr_assert_eq(json_object_get(way, "location") != NULL, !is_post);
        if (post) {
            cr_assert_str_eq(json_string_value(json_object_get(post, "url")), good.destination);
            cr_assert_str_eq(json_string_value(json_object_get(post, "name")), "SAMLRequest");
            cr_assert_str_eq(json_string_value(json_object_get(post, "relay_state")), "s&");
        }
        for (size_t i = 0; i < LEN(pems); i++) {
            saml_sending_t keyless = good;

            keyless.key_pem = pems[i];
            cr_assert_null(saml_deliver(&keyless, XML, strlen(XML)));
        }
    }
}

Test(saml_send, a_response_is_posted_under_its_own_name_and_without_a_state_where_there_is_none)
{
    _cleanup_(free_mem) char *key = NULL, *certificate = NULL;

    make_pair(&key, &certificate);
    {
        const saml_sending_t sending = {.is_post = true,
                                        .is_response = true,
                                        .destination = "https://x.test",
                                        .key_pem = key,
                                        .certificate_pem = certificate,
                                        .id = "_1"};
        _cleanup_(json_clear_ref) json_t *way = saml_deliver(&sending, XML, strlen(XML));
        const json_t *post = json_object_get(way, "post");

        cr_assert_str_eq(json_string_value(json_object_get(post, "name")), "SAMLResponse");
        cr_assert_null(json_object_get(post, "relay_state"));
    }
}

Test(saml_send, what_has_no_issuer_or_no_certificate_is_not_signed_in_itself)
{
    _cleanup_(free_mem) char *key = NULL, *certificate = NULL;
    saml_sending_t sending = {.id = "_1"};

    make_pair(&key, &certificate);
    sending.key_pem = key;
    sending.certificate_pem = certificate;
    cr_assert_null(saml_sign(&sending, "<x/>", 4));
    sending.certificate_pem = "none";
    cr_assert_null(saml_sign(&sending, XML, strlen(XML)));
}

Test(saml_send, the_signature_stands_behind_the_issuer_and_the_rest_is_as_it_was)
{
    static const char end[] = "</saml:Issuer>", behind[] = "</ds:Signature>";
    _cleanup_(free_mem) char *key = NULL, *certificate = NULL, *xml = NULL;
    saml_sending_t sending = {.id = "_1"};
    size_t before = (size_t)(strstr(XML, end) - XML) + strlen(end);
    const char *after;

    make_pair(&key, &certificate);
    sending.key_pem = key;
    sending.certificate_pem = certificate;
    xml = saml_sign(&sending, XML, strlen(XML));
    cr_assert_not_null(xml);
    cr_assert_eq(strncmp(xml, XML, before), 0);
    cr_assert_eq(strncmp(xml + before, "<ds:Signature ", strlen("<ds:Signature ")), 0);
    after = strstr(xml, behind) + strlen(behind);
    cr_assert_str_eq(after, XML + before);
}
