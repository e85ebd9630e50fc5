/* Encrypted assertions, without processes: their shape and ciphers, and that what comes out is
 * judged as if it had come so. The assertions are those of tests/unit/saml, encrypted here. */
#include "common/base/cleanup.h"
#include "services/xml/answer.h"
#include "services/xml/cipher.h"
#include "tests/unit/saml_sealed.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <string.h>

Test(saml_encrypted, an_encrypted_assertion_says_what_a_plain_one_says)
{
    static const struct way *const ways[] = {&gcm128, &gcm256};
    char why[512];

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(ways); i++) {
        _cleanup_(free_mem) char *plain = read_file("assertion");
        _cleanup_(free_mem) char *xml = encrypted_file("assertion", ways[i]);
        _cleanup_(json_clear_ref) json_t *want = say(plain, NULL, 0, why);
        _cleanup_(json_clear_ref) json_t *said = say(xml, content_key, ways[i]->key_bytes, why);
        _cleanup_(json_clear_ref) json_t *asked = say(xml, NULL, 0, why);
        const json_t *encrypted = json_object_get(asked, "encrypted");

        cr_assert(said, "%s", why);
        cr_assert(json_equal(said, want));
        cr_assert_eq(json_object_size(asked), 1, "nothing is said without the key");
        cr_assert_str_eq(json_string_value(json_object_get(encrypted, "key")), "d3JhcHBlZA==");
        cr_assert_str_eq(json_string_value(json_object_get(encrypted, "digest")), "SHA1");
        cr_assert_eq(json_integer_value(json_object_get(encrypted, "bytes")),
                     (json_int_t)ways[i]->key_bytes);
    }
}

Test(saml_encrypted, namespaces_may_be_declared_around_what_is_encrypted)
{
    static const char ns[] = " xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"";
    _cleanup_(free_mem) char *xml = read_file("assertion");
    _cleanup_(free_mem) char *assertion = NULL, *bare = NULL, *inside = NULL, *whole = NULL;
    _cleanup_(json_clear_ref) json_t *said = NULL;
    const char *at;
    char why[512];
    size_t len;

    cr_assert_eq(answer_start(), 0);
    at = assertion_of(xml, &len);
    assertion = strndup(at, len);
    bare = swapped(assertion, ns, "");
    inside = sealed(&gcm128, bare);
    whole = response_with(xml, inside);
    said = say(whole, content_key, 16, why);
    cr_assert(said, "%s", why);
}

/* Whoever encrypts need not have signed anything: no private key is needed for it. */
Test(saml_encrypted, what_comes_out_is_judged_as_if_it_had_come_so)
{
    static const struct {
        const char *from, *to, *why;
    } rows[] = {
        {"user@example.test</saml:NameID>", "admin@example.test</saml:NameID>", "was changed"},
        {"<saml:Assertion", "<saml:Assertion x:y=\"\"", "cannot be decrypted"},
        {"<saml:Assertion", "<!-- --><saml:Assertion", "cannot be decrypted"},
        {"<saml:Assertion", "<?xml version=\"1.0\"?><saml:Assertion", "cannot be decrypted"},
        {"<saml:Assertion", "<!DOCTYPE a><saml:Assertion", "cannot be decrypted"},
        {"<saml:Assertion", "text<saml:Assertion", "cannot be decrypted"},
        {"</saml:Assertion>", "</saml:Assertion><saml:Assertion/>", "cannot be decrypted"},
        {"</saml:Assertion>", "", "cannot be decrypted"},
        {"</saml:Assertion>",
         "</saml:Assertion></saml:EncryptedAssertion><saml:EncryptedAssertion>",
         "cannot be decrypted"},
        {"</saml:Assertion>", "</saml:Assertion></saml:EncryptedAssertion></samlp:Response>",
         "cannot be decrypted"},
        {"<saml:Subject>", "<saml:Subject><saml:EncryptedID/>", "encrypted part"},
        {"<saml:Subject>", "<saml:Subject><saml:EncryptedAssertion/>",
         "assertion in another place"},
        {"<saml:Subject>", "<saml:Subject><saml:Assertion/>", "assertion in another place"},
        {"<saml:Subject>", "<saml:Subject ID=\"_response1\">", "ID twice"},
        {"<ds:SignatureValue>", "<ds:SignatureValue>AAAA", "was changed"},
    };
    _cleanup_(free_mem) char *xml = read_file("assertion");
    _cleanup_(free_mem) char *plain = NULL;
    const char *at;
    size_t len;

    cr_assert_eq(answer_start(), 0);
    at = assertion_of(xml, &len);
    plain = strndup(at, len);
    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(free_mem) char *evil = swapped(plain, rows[i].from, rows[i].to);
        _cleanup_(free_mem) char *inside = sealed(&gcm128, evil);
        _cleanup_(free_mem) char *whole = response_with(xml, inside);
        _cleanup_(json_clear_ref) json_t *said = NULL;
        char why[512];

        said = say(whole, content_key, 16, why);
        cr_assert_null(said, "row %zu", i);
        cr_assert(strstr(why, rows[i].why), "row %zu: %s", i, why);
    }
}

Test(saml_encrypted, an_assertion_that_nobody_signed_is_refused_though_it_was_encrypted)
{
    _cleanup_(free_mem) char *xml = read_file("response"), *bare = NULL;
    _cleanup_(free_mem) char *plain = NULL, *inside = NULL, *whole = NULL;
    const char *at, *signature = strstr(xml, "<ds:Signature "), end[] = "</ds:Signature>";
    char why[512];
    size_t len;

    cr_assert_eq(answer_start(), 0);
    at = assertion_of(xml, &len);
    cr_assert(signature && signature < at);
    plain = strndup(at, len);
    inside = sealed(&gcm256, plain);
    whole = response_with(xml, inside);
    cr_assert_null(say(whole, content_key, 32, why), "its signature is of what is not encrypted");
    cr_assert(strstr(why, "was changed"), "%s", why);
    bare = strndup(signature, (size_t)(strstr(signature, end) - signature) + strlen(end));
    free(whole);
    whole = response_with(xml, inside);
    free(inside);
    inside = swapped(whole, bare, "");
    cr_assert_null(say(inside, content_key, 32, why));
    cr_assert(strstr(why, "is not signed"), "%s", why);
}

/* ---- what cannot be opened ---- */

/* The words must not say what was wrong: each would be a question to whoever holds the key. */
Test(saml_encrypted, everything_that_cannot_be_opened_is_refused_in_the_same_words)
{
    static const unsigned char other[32] = "another key";
    static const size_t lengths[] = {1, 12, 27, 28, 29, 100};
    _cleanup_(free_mem) char *xml = read_file("assertion");
    _cleanup_(free_mem) char *good = encrypted_file("assertion", &gcm128);
    char want[512], why[512];

    cr_assert_eq(answer_start(), 0);
    cr_assert_null(say(good, other, 16, want));
    cr_assert_str_eq(
        want, "the message has an assertion that cannot be decrypted: is it encrypted to the "
              "route's encryption_certificate_pem?");
    cr_assert_null(say(good, content_key, 15, why));
    cr_assert_str_eq(why, want, "a key of another length");
    cr_assert_null(say(good, content_key, 32, why));
    cr_assert_str_eq(why, want, "a key of another length");
    for (size_t i = 0; i < LEN(lengths); i++) {
        _cleanup_(free_mem) char *inside = sealed(&gcm128, ""), *empty = NULL, *cut = NULL;
        _cleanup_(free_mem) char *bytes = calloc(1, 100), *text = NULL, *content = NULL;

        content = encrypt(&gcm128, "");
        text = base64_of((unsigned char *)bytes, lengths[i]);
        cut = swapped(inside, content, text);
        empty = response_with(xml, cut);
        cr_assert_null(say(empty, content_key, 16, why));
        cr_assert_str_eq(why, want, "%zu bytes", lengths[i]);
    }
}

Test(saml_encrypted, every_bit_of_gcm_counts)
{
    static const char plain[] = "<a/>";
    _cleanup_(free_mem) char *text = encrypt(&gcm256, plain);
    unsigned char bytes[64];
    int len;

    cr_assert_eq(answer_start(), 0);
    len = EVP_DecodeBlock(bytes, (unsigned char *)text, (int)strlen(text));
    len -= text[strlen(text) - 1] == '=' ? 1 + (text[strlen(text) - 2] == '=') : 0;
    for (int bit = -1; bit < 8 * len; bit++) {
        _cleanup_(free_mem) char *out = NULL;
        size_t out_len;
        bool is_good;

        if (bit >= 0)
            bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ 1 << bit % 8);
        is_good =
            cipher_open(cipher_find(gcm256.uri), content_key, bytes, (size_t)len, &out, &out_len);
        cr_assert_eq(is_good, bit < 0, "bit %d", bit);
        if (bit >= 0)
            bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
}

Test(saml_encrypted, padding_of_cbc_is_from_1_to_16)
{
    static const struct {
        unsigned char last;
        size_t len; /* 0: refused */
    } rows[] = {{0, 0}, {1, 31}, {2, 30}, {16, 16}, {17, 0}, {255, 0}};

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(rows); i++) {
        unsigned char plain[32] = "0123456789abcdef0123456789abcde", bytes[48] = "an IV of 16 byte";
        EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        _cleanup_(free_mem) char *out = NULL;
        size_t len = 0;
        int n;

        plain[31] = rows[i].last;
        EVP_EncryptInit_ex(ctx, EVP_get_cipherbyname("AES-128-CBC"), NULL, content_key, bytes);
        EVP_CIPHER_CTX_set_padding(ctx, 0);
        EVP_EncryptUpdate(ctx, bytes + 16, &n, plain, 32);
        EVP_CIPHER_CTX_free(ctx);
        cr_assert_eq(cipher_open(cipher_find(cbc128.uri), content_key, bytes, 48, &out, &len),
                     rows[i].len != 0, "row %zu", i);
        cr_assert_eq(len, rows[i].len, "row %zu", i);
        cr_assert(!cipher_open(cipher_find(cbc128.uri), content_key, bytes, 47, &out, &len));
        cr_assert(!cipher_open(cipher_find(cbc128.uri), content_key, bytes, 16, &out, &len));
    }
}

/* ---- shapes ---- */

#define OAEP_METHOD "<xenc:EncryptionMethod Algorithm=\"" XENC "rsa-oaep-mgf1p\"/>"
#define INNER_KEY                                                                                  \
    "<xenc:EncryptedKey>" OAEP_METHOD                                                              \
    "<xenc:CipherData><xenc:CipherValue>d3JhcHBlZA==</xenc:CipherValue></xenc:CipherData>"         \
    "</xenc:EncryptedKey>"
#define OAEP11(more)                                                                               \
    "<xenc:EncryptionMethod Algorithm=\"" XENC11 "rsa-oaep\">" more "</xenc:EncryptionMethod>"
#define DIGEST(uri) "<ds:DigestMethod Algorithm=\"" uri "\"/>"
#define MGF1(name)  "<x:MGF xmlns:x=\"" XENC11 "\" Algorithm=\"" XENC11 name "\"/>"

static void check_shape(const char *from, const char *to, const char *digest, const char *mgf1,
                        const char *refusal)
{
    _cleanup_(free_mem) char *good = encrypted_file("assertion", &gcm128);
    _cleanup_(free_mem) char *xml = swapped(good, from, to);
    _cleanup_(json_clear_ref) json_t *said = NULL;
    const json_t *encrypted;
    char why[512];

    said = say(xml, NULL, 0, why);
    cr_assert_eq(said == NULL, refusal != NULL, "%s: %s", to, why);
    cr_assert(!refusal || strstr(why, refusal), "%s: %s", to, why);
    encrypted = json_object_get(said, "encrypted");
    cr_assert(refusal
                  || (!strcmp(json_string_value(json_object_get(encrypted, "digest")), digest)
                      && !strcmp(json_string_value(json_object_get(encrypted, "mgf1")), mgf1)),
              "%s", to);
}

Test(saml_encrypted, keys_are_of_oaep_alone)
{
    static const char other[] = "another algorithm than RSA-OAEP";
    static const struct {
        const char *method, *digest, *mgf1; /* NULL: refused */
    } rows[] = {
        {OAEP_METHOD, "SHA1", "SHA1"},
        {OAEP11(""), "SHA1", "SHA1"},
        {OAEP11(DIGEST(XENC "sha256")), "SHA256", "SHA1"},
        {OAEP11(DIGEST(XENC "sha256") MGF1("mgf1sha256")), "SHA256", "SHA256"},
        {OAEP11(MGF1("mgf1sha256") DIGEST(DSIG "sha1")), "SHA1", "SHA256"},
        {OAEP11(MGF1("mgf1md5")), NULL, NULL},
        {OAEP11(DIGEST(XENC "sha512")), NULL, NULL},
        {OAEP11(DIGEST("http://www.w3.org/2001/04/xmldsig-more#md5")), NULL, NULL},
        {OAEP11("<xenc:OAEPparams>AA==</xenc:OAEPparams>"), NULL, NULL},
        {OAEP11("<xenc:KeySize>128</xenc:KeySize>"), NULL, NULL},
        {OAEP11(DIGEST(DSIG "sha1") DIGEST(DSIG "sha1")), NULL, NULL},
        {"<xenc:EncryptionMethod Algorithm=\"" XENC "rsa-1_5\"/>", NULL, NULL},
        {"<xenc:EncryptionMethod Algorithm=\"" XENC "kw-aes128\"/>", NULL, NULL},
        {"<xenc:EncryptionMethod/>", NULL, NULL},
        {"", NULL, NULL},
    };

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(rows); i++)
        check_shape(OAEP_METHOD, rows[i].method, rows[i].digest, rows[i].mgf1,
                    rows[i].digest ? NULL : other);
}

Test(saml_encrypted, ciphers_are_of_a_list)
{
    static const char *const bad[] = {XENC "tripledes-cbc", XENC "aes192-cbc", XENC11 "aes192-gcm",
                                      XENC11 "aes128-gcm2", ""};

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(bad); i++)
        check_shape(XENC11 "aes128-gcm", bad[i], NULL, NULL, "another algorithm than AES");
    check_shape(XENC11 "aes128-gcm", XENC "aes128-cbc", NULL, NULL, "signed itself");
    check_shape(XENC11 "aes128-gcm", XENC "aes256-cbc", NULL, NULL, "signed itself");
}

Test(saml_encrypted, there_is_one_key_and_it_is_where_it_is_looked_for)
{
    static const char info[] = "<ds:KeyInfo xmlns:ds=\"" DSIG "\">" INNER_KEY "</ds:KeyInfo>";
    static const char end[] = "</saml:EncryptedAssertion>";
    static const char keys[] = "no EncryptedKey for its assertion, or several";
    static const char shape[] = "one EncryptedData";
    static const struct {
        const char *from, *to, *why; /* NULL: it is good */
    } rows[] = {
        {INNER_KEY, INNER_KEY INNER_KEY, keys},
        {INNER_KEY, "", keys},
        {info, "", keys},
        {INNER_KEY, "<ds:KeyName>a</ds:KeyName>" INNER_KEY, keys},
        {end, INNER_KEY "</saml:EncryptedAssertion>", "not well-formed"},
        {end, "<xenc:EncryptedKey xmlns:xenc=\"" XENC "\"/></saml:EncryptedAssertion>", keys},
        {end, "<a xmlns=\"urn:a\"/></saml:EncryptedAssertion>", shape},
        {end, "text</saml:EncryptedAssertion>", shape},
        {INNER_KEY, "<ds:RetrievalMethod URI=\"#k\"/>", keys},
        {"Type=\"" XENC "Element\"", "", NULL},
        {"Type=\"" XENC "Element\"", "Type=\"" XENC "Content\"", shape},
        {"</xenc:EncryptedData>", "<xenc:EncryptionProperties/></xenc:EncryptedData>",
         "parts that are not known"},
        {"<xenc:CipherValue>d3JhcHBlZA==</xenc:CipherValue>",
         "<xenc:CipherReference URI=\"http://127.0.0.1/\"/>", "CipherValue"},
        {"d3JhcHBlZA==", "%%%", "CipherValue"},
        {"d3JhcHBlZA==", "", "not known"},
        {"<samlp:Status>", "<xenc:EncryptedData xmlns:xenc=\"" XENC "\"/><samlp:Status>",
         "encrypted part"},
        {"<samlp:Status>",
         "<saml:Assertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"/><samlp:Status>",
         "several assertions"},
        {"<samlp:Status>", ENCRYPTED "</saml:EncryptedAssertion><samlp:Status>",
         "several assertions"},
        {"<xenc:EncryptedData", ENCRYPTED "</saml:EncryptedAssertion><xenc:EncryptedData",
         "another place"},
        {INNER_KEY, "<ds:Signature/>" INNER_KEY, "signature in another place"},
    };

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(rows); i++)
        check_shape(rows[i].from, rows[i].to, "SHA1", "SHA1", rows[i].why);
}

Test(saml_encrypted, the_key_may_stand_behind_what_it_opens)
{
    static const char key[] =
        "<xenc:EncryptedKey xmlns:xenc=\"" XENC "\" Id=\"_k\">" OAEP_METHOD
        "<ds:KeyInfo xmlns:ds=\"" DSIG "\"><ds:KeyName>x</ds:KeyName></ds:KeyInfo>"
        "<xenc:CipherData><xenc:CipherValue>d3Jh\ncHBlZA==</xenc:CipherValue></xenc:CipherData>"
        "<xenc:ReferenceList><xenc:DataReference URI=\"#d\"/></xenc:ReferenceList>"
        "</xenc:EncryptedKey></saml:EncryptedAssertion>";
    static const struct {
        const char *info;
        bool is_good;
    } rows[] = {
        {"<ds:RetrievalMethod URI=\"#_k\" Type=\"" XENC "EncryptedKey\"/>", true},
        {"<ds:RetrievalMethod URI=\"#_k\"/>", true},
        {"<ds:RetrievalMethod URI=\"#_other\"/>", false},
        {"<ds:RetrievalMethod URI=\"http://127.0.0.1/#_k\"/>", false},
        {"<ds:RetrievalMethod/>", false},
        {"<ds:RetrievalMethod URI=\"#_k\"><ds:Transforms/></ds:RetrievalMethod>", false},
        {"<ds:KeyName>x</ds:KeyName>", false},
        {INNER_KEY, false},
    };
    char why[512];

    cr_assert_eq(answer_start(), 0);
    for (size_t i = 0; i < LEN(rows); i++) {
        _cleanup_(free_mem) char *good = encrypted_file("assertion", &gcm128);
        _cleanup_(free_mem) char *info = swapped(good, INNER_KEY, rows[i].info);
        _cleanup_(free_mem) char *xml = swapped(info, "</saml:EncryptedAssertion>", key);
        _cleanup_(json_clear_ref) json_t *asked = say(xml, NULL, 0, why);
        _cleanup_(json_clear_ref) json_t *said = say(xml, content_key, 16, why);

        cr_assert_eq(asked != NULL, rows[i].is_good, "row %zu: %s", i, why);
        cr_assert_eq(said != NULL, rows[i].is_good, "row %zu: %s", i, why);
    }
}

Test(saml_encrypted, a_key_for_what_is_not_encrypted_is_refused)
{
    _cleanup_(free_mem) char *xml = read_file("assertion");
    char why[512];

    cr_assert_eq(answer_start(), 0);
    cr_assert_null(say(xml, content_key, 16, why));
    cr_assert(strstr(why, "nothing that is encrypted"), "%s", why);
}

/* ---- mutants ---- */

/* Of what is around the ciphertext, and of what is in it: whoever encrypts need not be the
 * provider. */
Test(saml_encrypted, no_mutant_says_something_else)
{
    const char *setting = getenv("SAML_MUTANTS");
    long count = setting ? strtol(setting, NULL, 10) : 5000, accepted = 0;
    _cleanup_(free_mem) char *metadata = read_file("metadata"), *xml = read_file("assertion");
    _cleanup_(free_mem) char *good = encrypted_file("assertion", &gcm128);
    _cleanup_(free_mem) char *key = base64_of(content_key, 16), *plain = NULL;
    _cleanup_(json_clear_ref) json_t *want = NULL;
    size_t plain_len;

    cr_assert_eq(answer_start(), 0);
    plain = strdup(assertion_of(xml, &plain_len));
    plain[plain_len] = '\0';
    want = said_by(metadata, good, strlen(good), key);
    cr_assert(want);
    for (long n = 0; n < count; n++) {
        static char mutant[MUTANT_MAX];
        _cleanup_(free_mem) char *inside = NULL, *whole = NULL;
        _cleanup_(json_clear_ref) json_t *said = NULL;
        const char *from = n % 2 ? plain : good;
        size_t len = strlen(from);

        memcpy(mutant, from, len);
        for (size_t times = 1 + draw(3); times; times--)
            mutate_once(mutant, &len);
        mutant[len] = '\0';
        inside = n % 2 ? sealed(&gcm128, mutant) : NULL;
        whole = inside ? response_with(xml, inside) : strdup(mutant);
        said = said_by(metadata, whole, inside ? strlen(whole) : len, key);
        accepted += said != NULL;
        if (said) /* the response is not signed, so its ID says nothing */
            json_object_set(said, "response_id", json_object_get(want, "response_id"));
        cr_assert(!said || json_equal(said, want), "%s", whole);
    }
    cr_log_info("%ld of %ld mutants were accepted, and say the same", accepted, count);
}
