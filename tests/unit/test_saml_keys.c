/* Rotation of a route's keys of SAML: which state follows which, which key is in use in each, and
 * what is gone after it. */
#include "common/base/cleanup.h"
#include "services/routes/saml_keys.h"
#include "services/routes/x509.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

static const char *const names[] = {
    "request_signing_certificate_pem",
    "request_signing_key_pem",
    "encryption_certificate_pem",
    "encryption_key_pem",
    "other_request_signing_certificate_pem",
    "other_request_signing_key_pem",
    "other_encryption_certificate_pem",
    "other_encryption_key_pem",
};

enum { IN_USE = 4 /* of these names are of the pairs in use */ };

static const char *text_of(const json_t *saml, size_t i)
{
    return json_string_value(json_object_get(saml, names[i]));
}

/* The module as it was, and as a client wants it now; rotation NULL: it says nothing of that. */
static json_t *turned(const json_t *before, const char *rotation, int want)
{
    json_t *saml = json_pack("{s:s*}", "key_rotation", rotation);
    problem_t problem = {0};

    cr_assert_eq(saml_keys_complete(saml, before, "edghtsrt_1", &problem), want, "%s: %s",
                 rotation ? rotation : "left out", problem.msg);
    problem_done(&problem);
    return saml;
}

/* Key and certificate of each pair that is there belong together. */
static void assert_pairs(const json_t *saml)
{
    for (size_t i = 0; i < LEN(names); i += 2) {
        BIO *bio;
        X509 *certificate;
        EVP_PKEY *key;

        cr_assert_eq(!text_of(saml, i), !text_of(saml, i + 1));
        if (!text_of(saml, i))
            continue;
        bio = BIO_new_mem_buf(text_of(saml, i), -1);
        certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        BIO_free(bio);
        bio = BIO_new_mem_buf(text_of(saml, i + 1), -1);
        key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
        BIO_free(bio);
        cr_assert_eq(X509_check_private_key(certificate, key), 1, "%s", names[i]);
        X509_free(certificate);
        EVP_PKEY_free(key);
    }
}

static bool has_other(const json_t *saml)
{
    size_t n = 0;

    for (size_t i = IN_USE; i < LEN(names); i++)
        n += text_of(saml, i) != NULL;
    cr_assert(n == 0 || n == IN_USE);
    return n != 0;
}

static void assert_same(const json_t *one, size_t from, const json_t *two, size_t to)
{
    for (size_t i = 0; i < IN_USE; i++)
        cr_assert_str_eq(text_of(one, from + i), text_of(two, to + i), "%s", names[to + i]);
}

Test(saml_keys, a_rotation_goes_from_none_to_next_to_promoted_and_to_none_again)
{
    _cleanup_(json_clear_ref) json_t *fresh = turned(NULL, NULL, 0);
    _cleanup_(json_clear_ref) json_t *next = turned(fresh, "next", 0);
    _cleanup_(json_clear_ref) json_t *promoted = turned(next, "promoted", 0);
    _cleanup_(json_clear_ref) json_t *done = turned(promoted, "none", 0);

    cr_assert(!has_other(fresh) && has_other(next) && has_other(promoted) && !has_other(done));
    assert_same(fresh, 0, next, 0);
    assert_same(next, IN_USE, promoted, 0);
    assert_same(next, 0, promoted, IN_USE);
    assert_same(promoted, 0, done, 0);
    for (size_t i = 0; i < IN_USE; i++)
        cr_assert_str_neq(text_of(fresh, i), text_of(done, i));
    assert_pairs(next);
    assert_pairs(promoted);
    assert_pairs(done);
}

Test(saml_keys, what_is_said_again_or_left_out_changes_nothing)
{
    _cleanup_(json_clear_ref) json_t *one = turned(NULL, "none", 0);
    _cleanup_(json_clear_ref) json_t *next = turned(one, "next", 0);
    _cleanup_(json_clear_ref) json_t *promoted = turned(next, "promoted", 0);
    const json_t *const states[] = {one, next, promoted};

    for (size_t i = 0; i < LEN(states); i++) {
        const char *rotation = json_string_value(json_object_get(states[i], "key_rotation"));
        _cleanup_(json_clear_ref) json_t *again = turned(states[i], rotation, 0);
        _cleanup_(json_clear_ref) json_t *left_out = turned(states[i], NULL, 0);

        cr_assert(json_equal(again, states[i]), "%s", rotation);
        cr_assert(json_equal(left_out, states[i]), "%s", rotation);
    }
}

Test(saml_keys, a_promotion_is_taken_back_and_a_next_key_given_up)
{
    _cleanup_(json_clear_ref) json_t *one = turned(NULL, NULL, 0);
    _cleanup_(json_clear_ref) json_t *next = turned(one, "next", 0);
    _cleanup_(json_clear_ref) json_t *promoted = turned(next, "promoted", 0);
    _cleanup_(json_clear_ref) json_t *back = turned(promoted, "next", 0);
    _cleanup_(json_clear_ref) json_t *given_up = turned(back, "none", 0);

    cr_assert(json_equal(back, next));
    cr_assert(json_equal(given_up, one));
}

Test(saml_keys, what_does_not_follow_is_refused)
{
    _cleanup_(json_clear_ref) json_t *one = turned(NULL, NULL, 0);

    json_decref(turned(NULL, "next", ERR_INVALID_FIELD));
    json_decref(turned(NULL, "promoted", ERR_INVALID_FIELD));
    json_decref(turned(one, "promoted", ERR_INVALID_FIELD));
}

/* One of a version that had no key for encryption, and no rotation. */
Test(saml_keys, a_missing_pair_is_made_and_the_others_are_kept)
{
    _cleanup_(json_clear_ref) json_t *one = turned(NULL, NULL, 0);
    _cleanup_(json_clear_ref) json_t *old = json_copy(one);
    _cleanup_(json_clear_ref) json_t *now = NULL;

    json_object_del(old, "encryption_certificate_pem");
    json_object_del(old, "encryption_key_pem");
    json_object_del(old, "key_rotation");
    now = turned(old, "next", 0);
    cr_assert_str_eq(text_of(now, 1), text_of(one, 1));
    cr_assert(has_other(now));
    assert_pairs(now);
}

/* A certificate that ends so many seconds from now. */
static char *certificate_of(long seconds)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *text;
    long len;

    X509_gmtime_adj(X509_getm_notBefore(certificate), -86400L * 400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    PEM_write_bio_X509(bio, certificate);
    len = BIO_get_mem_data(bio, &bytes);
    text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return text;
}

Test(saml_keys, a_next_pair_is_due_sixty_days_before_the_first_certificate_ends)
{
    static const struct {
        long seconds;
        int days;
        bool is_due;
    } rows[] = {{86400L * 62, 61, false},
                {86400L * 61, 60, true},
                {86400L * 10, 9, true},
                {-3600, -1, true},
                {-86400L * 3, -4, true}};
    _cleanup_(free_mem) char *long_one = certificate_of(86400L * 9000);

    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(free_mem) char *pem = certificate_of(rows[i].seconds - 60);

        for (size_t at = 0; at < IN_USE; at += 2) {
            _cleanup_(json_clear_ref) json_t *saml =
                json_pack("{s:s, s:s}", names[0], at == 0 ? pem : long_one, names[2],
                          at == 2 ? pem : long_one);

            cr_assert_eq(saml_keys_days_left(saml), rows[i].days, "row %zu: %d", i,
                         saml_keys_days_left(saml));
            cr_assert_eq(saml_keys_are_due(saml), rows[i].is_due, "row %zu", i);
            json_object_set_new(saml, "key_rotation", json_string("next"));
            cr_assert(!saml_keys_are_due(saml), "there is one");
            json_object_set_new(saml, "key_rotation", json_string("promoted"));
            cr_assert(!saml_keys_are_due(saml), "a rotation is under way");
        }
    }
}

Test(saml_keys, only_certificates_in_use_count_and_an_unreadable_one_is_due)
{
    _cleanup_(free_mem) char *soon = certificate_of(86400L), *late = certificate_of(86400L * 9000);
    _cleanup_(json_clear_ref) json_t *saml =
        json_pack("{s:s, s:s, s:s}", names[0], late, names[2], late, names[4], soon);

    cr_assert(!saml_keys_are_due(saml));
    json_object_set_new(saml, names[2], json_string("no certificate"));
    cr_assert(saml_keys_are_due(saml));
}
