/* Certificates of webhook signers: one that Amazon SNS has used, and ones that are made here. */
#include "services/fetch/certificate.h"

#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { NOW_S = 1700000000, DAY_S = 24 * 3600 };

static const char sns_2013[] = "-----BEGIN CERTIFICATE-----\n"
                               "MIIFLTCCBBWgAwIBAgIQRXp96/v1XBAeRm45eB6eajANBgkqhkiG9w0BAQUFADCB\n"
                               "tTELMAkGA1UEBhMCVVMxFzAVBgNVBAoTDlZlcmlTaWduLCBJbmMuMR8wHQYDVQQL\n"
                               "ExZWZXJpU2lnbiBUcnVzdCBOZXR3b3JrMTswOQYDVQQLEzJUZXJtcyBvZiB1c2Ug\n"
                               "YXQgaHR0cHM6Ly93d3cudmVyaXNpZ24uY29tL3JwYSAoYykxMDEvMC0GA1UEAxMm\n"
                               "VmVyaVNpZ24gQ2xhc3MgMyBTZWN1cmUgU2VydmVyIENBIC0gRzMwHhcNMTMwOTEx\n"
                               "MDAwMDAwWhcNMTQwOTEyMjM1OTU5WjBqMQswCQYDVQQGEwJVUzETMBEGA1UECBMK\n"
                               "V2FzaGluZ3RvbjEQMA4GA1UEBxQHU2VhdHRsZTEYMBYGA1UEChQPQW1hem9uLmNv\n"
                               "bSBJbmMuMRowGAYDVQQDFBFzbnMuYW1hem9uYXdzLmNvbTCCASIwDQYJKoZIhvcN\n"
                               "AQEBBQADggEPADCCAQoCggEBAKpSGRs4IesnwfAABnP2vBxYAqwByHN4Ups5ylB3\n"
                               "kJUoJe2nJKJXkniLB6Jrczg9GDf5XSlmOKfRrQweFJjCnE7hnbL1AuYDrbsBzFlI\n"
                               "S8qN8RwNbCu1P9PwqQn2Q8ekwVh/kNaqACCOhkcBtUiXReCEnasWKFqnbj6zrlJs\n"
                               "zguD32O4vt7H5iE8eVtU42dc4J/2uzvEwQmn9W0lQcS/ucLeFlMYccNcU/oJxOap\n"
                               "Kg2auLatAzPm+gikUVnacUSwNHH4pnyCZ89cj9GZzu94WZFr+uohJu6gj28iVDIT\n"
                               "OoHzbsTsrAtLa8QWo1QmAFlU20wFFAetRWkUoQ/vTCSH4ZECAwEAAaOCAYEwggF9\n"
                               "MBwGA1UdEQQVMBOCEXNucy5hbWF6b25hd3MuY29tMAkGA1UdEwQCMAAwDgYDVR0P\n"
                               "AQH/BAQDAgWgMB0GA1UdJQQWMBQGCCsGAQUFBwMBBggrBgEFBQcDAjBDBgNVHSAE\n"
                               "PDA6MDgGCmCGSAGG+EUBBzYwKjAoBggrBgEFBQcCARYcaHR0cHM6Ly93d3cudmVy\n"
                               "aXNpZ24uY29tL2NwczAfBgNVHSMEGDAWgBQNRFwWU0TBgn4dIKsl9AFj2L55pTBF\n"
                               "BgNVHR8EPjA8MDqgOKA2hjRodHRwOi8vU1ZSU2VjdXJlLUczLWNybC52ZXJpc2ln\n"
                               "bi5jb20vU1ZSU2VjdXJlRzMuY3JsMHYGCCsGAQUFBwEBBGowaDAkBggrBgEFBQcw\n"
                               "AYYYaHR0cDovL29jc3AudmVyaXNpZ24uY29tMEAGCCsGAQUFBzAChjRodHRwOi8v\n"
                               "U1ZSU2VjdXJlLUczLWFpYS52ZXJpc2lnbi5jb20vU1ZSU2VjdXJlRzMuY2VyMA0G\n"
                               "CSqGSIb3DQEBBQUAA4IBAQARbCGQM7qTfF6jIfy0cenCUP7vx8+pSZqhBH+wrvHd\n"
                               "/JBIezBYI0iG8ufyTon9IAIg3YxLB3TgBxw9aOaerNhuJjKmNx5oQOdgbuxo9Iju\n"
                               "K/L3gkiWTd5jdpUrMHIHawQhyvXntgv7dDwHCbhgvnesrJzcuS/yM55tefmCzqgm\n"
                               "hAh/XKs1oqwFgaRvBUH8xFhMYSOOl6XDQrUE5WeFAOU0RO7sLjA4awE+8/W6nRAP\n"
                               "xzG/1Qvc1gHiE5ms+iWTa+Nd56MZkHpHRsfyydDv3Gp9Lsv86deEMzxNg8T4KuSJ\n"
                               "e3G8BZ+EAAIP8avZW1w6FPzklJp625XfNlavxSH086iA\n"
                               "-----END CERTIFICATE-----\n";

#define URL "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem"

/* ---- making certificates ---- */

typedef struct made {
    X509 *cert;
    EVP_PKEY *key;
} made_t;

typedef struct recipe {
    const char *name, *subject; /* its DNS name, or none; its CN, or the same */
    bool is_authority;
    int from_days, to_days;         /* of NOW_S */
    const char *extended, *issuers; /* extendedKeyUsage, authorityInfoAccess */
} recipe_t;

static void extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    cr_assert(extension, "%s", value);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
}

/* issuer NULL: itself. Takes the key. */
static made_t make(EVP_PKEY *key, recipe_t recipe, const made_t *issuer)
{
    made_t self = {X509_new(), key};
    char name[128];
    static long serial;

    X509_set_version(self.cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(self.cert), ++serial);
    ASN1_TIME_set(X509_getm_notBefore(self.cert), NOW_S + (time_t)recipe.from_days * DAY_S);
    ASN1_TIME_set(X509_getm_notAfter(self.cert), NOW_S + (time_t)recipe.to_days * DAY_S);
    X509_set_pubkey(self.cert, key);
    X509_NAME_add_entry_by_txt(
        X509_get_subject_name(self.cert), "CN", MBSTRING_ASC,
        (const unsigned char *)(recipe.subject ? recipe.subject : recipe.name), -1, -1, 0);
    X509_set_issuer_name(self.cert, X509_get_subject_name(issuer ? issuer->cert : self.cert));
    if (recipe.name) {
        snprintf(name, sizeof(name), "DNS:%s", recipe.name);
        extend(self.cert, NID_subject_alt_name, name);
    }
    extend(self.cert, NID_basic_constraints, recipe.is_authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (recipe.extended)
        extend(self.cert, NID_ext_key_usage, recipe.extended);
    if (recipe.issuers)
        extend(self.cert, NID_info_access, recipe.issuers);
    X509_sign(self.cert, issuer ? issuer->key : key, EVP_sha256());
    return self;
}

static void unmake(made_t *self)
{
    X509_free(self->cert);
    EVP_PKEY_free(self->key);
}

static char *pem_of(const made_t *first, const made_t *second)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes, *text;
    long len;

    PEM_write_bio_X509(bio, first->cert);
    if (second)
        PEM_write_bio_X509(bio, second->cert);
    len = BIO_get_mem_data(bio, &bytes);
    text = strndup(bytes, (size_t)len);
    BIO_free(bio);
    return text;
}

/* ---- the tests' authority, and what it says of a certificate ---- */

typedef struct world {
    made_t root;
    X509_STORE *store;
    const char *why;
} world_t;

static const recipe_t root_recipe = {
    .subject = "root", .is_authority = true, .from_days = -1000, .to_days = 1000};
static const recipe_t leaf_recipe = {.name = "sns.amazonaws.com", .from_days = -1, .to_days = 1};

static void begin(world_t *world)
{
    *world =
        (world_t){.root = make(EVP_RSA_gen(2048), root_recipe, NULL), .store = X509_STORE_new()};
    X509_STORE_add_cert(world->store, world->root.cert);
}

static void end(world_t *world)
{
    X509_STORE_free(world->store);
    unmake(&world->root);
}

static certificate_verdict_t judge_text(world_t *world, const char *pem, const char *url,
                                        int64_t now_s)
{
    signer_url_t parts;
    certificate_t *certificate = certificate_read(pem, strlen(pem), &world->why);
    certificate_verdict_t verdict;

    cr_assert(certificate);
    cr_assert(signer_url_read(url, strlen(url), &parts));
    verdict = certificate_judge(certificate, &parts, world->store, now_s, &world->why);
    cr_assert(verdict == CERTIFICATE_GOOD || *world->why);
    certificate_destroy(&certificate);
    return verdict;
}

static certificate_verdict_t judge(world_t *world, EVP_PKEY *key, recipe_t recipe,
                                   const made_t *issuer, const made_t *beside)
{
    made_t leaf = make(key, recipe, issuer);
    char *pem = pem_of(&leaf, beside);
    certificate_verdict_t verdict = judge_text(world, pem, URL, NOW_S);

    free(pem);
    unmake(&leaf);
    return verdict;
}

/* ---- claims ---- */

Test(certificate, of_a_known_authority_for_a_name_of_the_signer_is_good)
{
    static const char *const names[] = {"sns.amazonaws.com", "sns.eu-west-1.amazonaws.com",
                                        "sns-signing.eu-west-1.amazonaws.com",
                                        "sns-eu-west-1.amazonaws.com"};
    world_t world;

    begin(&world);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        recipe_t recipe = leaf_recipe;

        recipe.name = names[i];
        cr_assert_eq(judge(&world, EVP_RSA_gen(2048), recipe, &world.root, NULL), CERTIFICATE_GOOD,
                     "%s: %s", names[i], world.why);
    }
    end(&world);
}

Test(certificate, that_is_not_the_signers_is_bad)
{
    static const recipe_t recipes[] = {
        {.name = "sns.amazonaws.com", .from_days = -2, .to_days = -1},
        {.name = "sns.amazonaws.com", .from_days = 1, .to_days = 2},
        {.name = "www.example.test", .from_days = -1, .to_days = 1},
        {.name = "sns.amazonaws.com.evil.test", .from_days = -1, .to_days = 1},
        {.name = "sns.us-east-1.amazonaws.com", .from_days = -1, .to_days = 1},
        {.name = "*.amazonaws.com", .from_days = -1, .to_days = 1},
        {.name = "sns.amazonaws.com.cn", .from_days = -1, .to_days = 1},
        {.name = "www.example.test", .subject = "sns.amazonaws.com", .from_days = -1, .to_days = 1},
        {.name = "sns.amazonaws.com", .is_authority = true, .from_days = -1, .to_days = 1},
        {.name = "sns.amazonaws.com", .from_days = -1, .to_days = 1, .extended = "clientAuth"},
    };
    world_t world;

    begin(&world);
    for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++)
        cr_assert_eq(judge(&world, EVP_RSA_gen(2048), recipes[i], &world.root, NULL),
                     CERTIFICATE_BAD, "%zu", i);
    cr_assert_eq(judge(&world, EVP_RSA_gen(2048), leaf_recipe, NULL, NULL), CERTIFICATE_BAD,
                 "its own");
    cr_assert_eq(judge(&world, EVP_RSA_gen(1024), leaf_recipe, &world.root, NULL), CERTIFICATE_BAD,
                 "a short key");
    cr_assert_eq(judge(&world, EVP_EC_gen("P-256"), leaf_recipe, &world.root, NULL),
                 CERTIFICATE_BAD, "another kind of key");
    end(&world);
}

Test(certificate, an_issuer_counts_where_an_authority_vouches_for_it)
{
    const recipe_t recipe = {
        .subject = "middle", .is_authority = true, .from_days = -1, .to_days = 1};
    world_t world;
    made_t stranger, middle, none;

    begin(&world);
    stranger = make(EVP_RSA_gen(2048), root_recipe, NULL);
    middle = make(EVP_RSA_gen(2048), recipe, &world.root);
    none = make(EVP_RSA_gen(2048), leaf_recipe, &world.root);
    cr_assert_eq(judge(&world, EVP_RSA_gen(2048), leaf_recipe, &middle, &middle), CERTIFICATE_GOOD);
    cr_assert_eq(judge(&world, EVP_RSA_gen(2048), leaf_recipe, &middle, NULL),
                 CERTIFICATE_LACKS_ISSUER);
    cr_assert_neq(judge(&world, EVP_RSA_gen(2048), leaf_recipe, &stranger, &stranger),
                  CERTIFICATE_GOOD, "it has the authority's name");
    cr_assert_neq(judge(&world, EVP_RSA_gen(2048), leaf_recipe, &none, &none), CERTIFICATE_GOOD,
                  "its issuer is no authority");
    unmake(&stranger);
    unmake(&middle);
    unmake(&none);
    end(&world);
}

Test(certificate, says_where_its_issuers_is)
{
    static const struct {
        const char *issuers, *url;
    } cases[] = {
        {NULL, NULL},
        {"caIssuers;URI:http://a.test/b.cer", "http://a.test/b.cer"},
        {"OCSP;URI:http://a.test/", NULL},
        {"caIssuers;URI:ldap://a.test/b,caIssuers;URI:http://a.test/c", "http://a.test/c"},
        {"caIssuers;URI:https://a.test/b", NULL},
        {"caIssuers;URI:http://a.test:8080/b", NULL},
        {"caIssuers;URI:http://user@a.test/b", NULL},
        {"caIssuers;URI:http://[::1]/b", NULL},
        {"caIssuers;URI:http://a.test", NULL},
        {"caIssuers;URI:file:///etc/passwd", NULL},
        {"caIssuers;DNS:a.test", NULL},
    };
    char url[CERTIFICATE_ISSUER_URL_MAX + 1];
    world_t world;

    begin(&world);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        recipe_t recipe = leaf_recipe;
        made_t leaf;
        char *pem;
        certificate_t *certificate;

        recipe.issuers = cases[i].issuers;
        leaf = make(EVP_RSA_gen(2048), recipe, &world.root);
        pem = pem_of(&leaf, NULL);
        certificate = certificate_read(pem, strlen(pem), &world.why);
        cr_assert_eq(certificate_issuer_url(certificate, url), cases[i].url != NULL, "%s",
                     cases[i].issuers);
        if (cases[i].url)
            cr_assert_str_eq(url, cases[i].url);
        certificate_destroy(&certificate);
        free(pem);
        unmake(&leaf);
    }
    end(&world);
}

Test(certificate, that_sns_has_used)
{
    char url[CERTIFICATE_ISSUER_URL_MAX + 1];
    signer_told_t told = {0};
    world_t world;
    certificate_t *certificate;

    begin(&world);
    certificate = certificate_read(sns_2013, strlen(sns_2013), &world.why);
    cr_assert(certificate_issuer_url(certificate, url));
    cr_assert_str_eq(url, "http://SVRSecure-G3-aia.verisign.com/SVRSecureG3.cer");
    cr_assert(certificate_tell(certificate, &told));
    cr_assert_eq(told.until_s, 1410566399); /* 2014-09-12T23:59:59Z */
    cr_assert_eq(told.key_len, 294);
    cr_assert_eq(judge_text(&world, sns_2013, URL, 1390000000), CERTIFICATE_LACKS_ISSUER);
    certificate_destroy(&certificate);
    end(&world);
}

Test(certificate, what_is_none)
{
    static const char *const texts[] = {"", "hello", "-----BEGIN CERTIFICATE-----\n",
                                        "-----BEGIN CERTIFICATE-----\nAAAA\n"
                                        "-----END CERTIFICATE-----\n"};
    const char *why;
    char *large = calloc(1, CERTIFICATE_BYTES_MAX + 1);

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_assert_null(certificate_read(texts[i], strlen(texts[i]), &why));
    memset(large, '\n', CERTIFICATE_BYTES_MAX + 1);
    memcpy(large, sns_2013, strlen(sns_2013));
    cr_assert_null(certificate_read(large, CERTIFICATE_BYTES_MAX + 1, &why));
    free(large);
}
