#include "services/routes/x509.h"
#include "common/base/cleanup.h"
#include "common/base/private_key.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#define PRIVATE_KEY_MARK "PRIVATE KEY-----" /* how the first line of every PEM form of one ends */

enum {
    DAY = 86400,
    CHAIN_MAX = 10,
    AUTHORITY_DAYS = 3650,
    LEAF_DAYS = 365,
    SIGNER_DAYS = 12775,
    RENEW_DAYS = 30
};

static void bio_clear(BIO **p)
{
    BIO_free(*p);
}

static void x509_clear(X509 **p)
{
    X509_free(*p);
}

static void pkey_clear(EVP_PKEY **p)
{
    EVP_PKEY_free(*p);
}

static void chain_clear(STACK_OF(X509) * *p)
{
    sk_X509_pop_free(*p, X509_free);
}

/* Never ask the terminal for a password: an encrypted key is refused. */
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static EVP_PKEY *read_key(const char *pem)
{
    _cleanup_(bio_clear) BIO *bio = BIO_new_mem_buf(pem, -1);

    return PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
}

static STACK_OF(X509) * read_chain(const char *pem)
{
    _cleanup_(bio_clear) BIO *bio = BIO_new_mem_buf(pem, -1);
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509 *one;

    while (sk_X509_num(chain) <= CHAIN_MAX
           && (one = PEM_read_bio_X509(bio, NULL, no_password, NULL)))
        sk_X509_push(chain, one);
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE || sk_X509_num(chain) == 0
        || sk_X509_num(chain) > CHAIN_MAX)
        chain_clear(&chain), chain = NULL;
    ERR_clear_error();
    return chain;
}

static void set_name(json_t *document, const char *key, X509_NAME *name, int nid)
{
    int at = X509_NAME_get_index_by_NID(name, nid, -1);
    unsigned char *text = NULL;

    if (at >= 0)
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
    json_object_set_new(document, key, text ? json_string((char *)text) : json_string(""));
    if (!json_object_get(document, key))
        json_object_set_new(document, key, json_string(""));
    OPENSSL_free(text);
}

/* Put a time into the document. RFC 3339 has years of four digits, and PostgreSQL no year 0. False:
 * the time cannot be written so. */
static bool set_time(json_t *document, const char *key, const ASN1_TIME *time)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(time, &tm) != 1 || tm.tm_year + 1900 < 1 || tm.tm_year + 1900 > 9999)
        return false;
    json_object_set_new(document, key,
                        json_sprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                                     tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec));
    return true;
}

static int set_validity(json_t *document, const char *path, X509 *certificate, problem_t *problem)
{
    if (set_time(document, "not_before", X509_get0_notBefore(certificate))
        && set_time(document, "not_after", X509_get0_notAfter(certificate)))
        return 0;
    return problem_add(problem, ERR_CERT_PEM, path,
                       "its validity begins or ends at no time of the years 1 to 9999");
}

static void set_alternative_names(json_t *document, X509 *leaf)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    json_t *dns = json_array(), *ips = json_array();

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_DNS)
            json_array_append_new(dns,
                                  json_stringn((const char *)ASN1_STRING_get0_data(name->d.dNSName),
                                               (size_t)ASN1_STRING_length(name->d.dNSName)));
        if (name->type == GEN_IPADD) {
            char *text = NULL;
            int n = ASN1_STRING_length(name->d.iPAddress);
            const unsigned char *b = ASN1_STRING_get0_data(name->d.iPAddress);

            if (n == 4)
                json_array_append_new(ips, json_sprintf("%d.%d.%d.%d", b[0], b[1], b[2], b[3]));
            else if ((text = i2s_ASN1_OCTET_STRING(NULL, name->d.iPAddress)))
                json_array_append_new(ips, json_string(text));
            OPENSSL_free(text);
        }
    }
    GENERAL_NAMES_free(names);
    json_object_set_new(document, "subject_alternative_names",
                        json_pack("{s:o, s:o}", "dns_names", dns, "ips", ips));
}

static void set_usages(json_t *document, X509 *leaf)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } usages[] =
        {
            {KU_DIGITAL_SIGNATURE, "digital_signature"},
            {KU_NON_REPUDIATION, "content_commitment"},
            {KU_KEY_ENCIPHERMENT, "key_encipherment"},
            {KU_DATA_ENCIPHERMENT, "data_encipherment"},
            {KU_KEY_AGREEMENT, "key_agreement"},
            {KU_KEY_CERT_SIGN, "cert_sign"},
            {KU_CRL_SIGN, "crl_sign"},
            {KU_ENCIPHER_ONLY, "encipher_only"},
            {KU_DECIPHER_ONLY, "decipher_only"},
        },
      extended[] = {
          {XKU_SSL_SERVER, "server_auth"},
          {XKU_SSL_CLIENT, "client_auth"},
          {XKU_CODE_SIGN, "code_signing"},
          {XKU_SMIME, "email_protection"},
          {XKU_TIMESTAMP, "time_stamping"},
          {XKU_OCSP_SIGN, "ocsp_signing"},
          {XKU_ANYEKU, "any"},
      };
    uint32_t ku = X509_get_key_usage(leaf), xku = X509_get_extended_key_usage(leaf);
    json_t *list = json_array(), *more = json_array();

    for (size_t i = 0; ku != UINT32_MAX && i < LEN(usages); i++)
        if (ku & usages[i].bit)
            json_array_append_new(list, json_string(usages[i].name));
    for (size_t i = 0; xku != UINT32_MAX && i < LEN(extended); i++)
        if (xku & extended[i].bit)
            json_array_append_new(more, json_string(extended[i].name));
    json_object_set_new(document, "key_usages", list);
    json_object_set_new(document, "extended_key_usages", more);
}

static void set_serial(json_t *document, X509 *leaf)
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get_serialNumber(leaf), NULL);
    char *hex = number ? BN_bn2hex(number) : NULL;

    for (char *c = hex; c && *c; c++)
        if (*c >= 'A' && *c <= 'F')
            *c = (char)(*c + 32);
    json_object_set_new(document, "serial_number", json_string(hex ? hex : ""));
    OPENSSL_free(hex);
    BN_free(number);
}

int x509_describe(const char *chain_pem, const char *key_pem, json_t *document, problem_t *problem)
{
    _cleanup_(chain_clear) STACK_OF(X509) *chain = read_chain(chain_pem);
    _cleanup_(pkey_clear) EVP_PKEY *key = read_key(key_pem);
    X509 *leaf = chain ? sk_X509_value(chain, 0) : NULL;
    const char *fault;

    ERR_clear_error();
    if (!chain)
        problem_add(problem, ERR_CERT_PEM, "certificate_pem",
                    "is not a PEM chain of 1 to %d certificates", CHAIN_MAX);
    if (!key)
        problem_add(problem, ERR_CERT_PEM, "private_key_pem",
                    "is not an unencrypted private key in PEM");
    if (strstr(chain_pem, PRIVATE_KEY_MARK))
        problem_add(problem, ERR_CERT_PEM, "certificate_pem",
                    "has a private key in it, which would be shown to everybody who may read it: "
                    "put it into private_key_pem alone");
    if (!chain || !key || problem->code)
        return problem->code;
    if (!private_key_type(key))
        return problem_add(problem, ERR_CERT_PEM, "private_key_pem",
                           "must be RSA of 2048 to 4096 bits, ECDSA (P-256, P-384 or P-521) or "
                           "Ed25519");
    if (X509_check_private_key(leaf, key) != 1) {
        ERR_clear_error();
        return problem_add(problem, ERR_CERT_PEM, "private_key_pem",
                           "does not belong to the first certificate");
    }
    fault = private_key_fault(key, PRIVATE_KEY_TRIALS);
    if (fault)
        return problem_add(
            problem, ERR_CERT_PEM, "private_key_pem",
            "is an RSA key whose numbers do not belong together: %s (RFC 8017 A.1.2)", fault);
    for (int i = 0; i + 1 < sk_X509_num(chain); i++) {
        _cleanup_(pkey_clear) EVP_PKEY *issuer = X509_get_pubkey(sk_X509_value(chain, i + 1));

        if (!issuer || X509_verify(sk_X509_value(chain, i), issuer) != 1) {
            ERR_clear_error();
            return problem_add(problem, ERR_CERT_PEM, "certificate_pem",
                               "certificate %d did not sign certificate %d: leaf first, then each "
                               "issuer",
                               i + 2, i + 1);
        }
    }
    if (set_validity(document, "certificate_pem", leaf, problem))
        return problem->code;
    set_name(document, "subject_common_name", X509_get_subject_name(leaf), NID_commonName);
    set_name(document, "issuer_common_name", X509_get_issuer_name(leaf), NID_commonName);
    set_name(document, "subject_organization", X509_get_subject_name(leaf), NID_organizationName);
    set_name(document, "subject_organizational_unit", X509_get_subject_name(leaf),
             NID_organizationalUnitName);
    set_name(document, "subject_locality", X509_get_subject_name(leaf), NID_localityName);
    set_name(document, "subject_province", X509_get_subject_name(leaf), NID_stateOrProvinceName);
    set_name(document, "subject_country", X509_get_subject_name(leaf), NID_countryName);
    set_alternative_names(document, leaf);
    set_usages(document, leaf);
    set_serial(document, leaf);
    json_object_set_new(document, "private_key_type", json_string(private_key_type(key)));
    return 0;
}

int x509_describe_authority(const char *pem, json_t *document, problem_t *problem)
{
    _cleanup_(chain_clear) STACK_OF(X509) *chain = read_chain(pem);
    X509 *authority = chain ? sk_X509_value(chain, 0) : NULL;

    ERR_clear_error();
    if (!chain || sk_X509_num(chain) != 1)
        return problem_add(problem, ERR_CERT_PEM, "ca_pem", "must be one certificate in PEM");
    if (strstr(pem, PRIVATE_KEY_MARK))
        return problem_add(problem, ERR_CERT_PEM, "ca_pem",
                           "has a private key in it, which would be shown to everybody who may "
                           "read it");
    /* Not a CA by RFC 5280 4.2.1.9. An old v1 root without basicConstraints is refused, too. */
    if (!(X509_get_extension_flags(authority) & EXFLAG_CA))
        return problem_add(problem, ERR_CERT_PEM, "ca_pem",
                           "is not a certificate authority: basicConstraints must say CA:TRUE");
    if (set_validity(document, "ca_pem", authority, problem))
        return problem->code;
    set_name(document, "subject_common_name", X509_get_subject_name(authority), NID_commonName);
    set_usages(document, authority);
    return 0;
}

/* ---- making certificates ---- */

static char *bio_text(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);

    return strndup(data, (size_t)len);
}

static char *key_to_pem(EVP_PKEY *key)
{
    _cleanup_(bio_clear) BIO *bio = BIO_new(BIO_s_secmem());

    return PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) ? bio_text(bio) : NULL;
}

static char *certificate_to_pem(X509 *certificate)
{
    _cleanup_(bio_clear) BIO *bio = BIO_new(BIO_s_mem());

    return PEM_write_bio_X509(bio, certificate) ? bio_text(bio) : NULL;
}

static int add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    int ok;

    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ok = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return ok ? 0 : -EIO;
}

/* A certificate without extensions and signature. issuer NULL: self-signed. */
static X509 *new_certificate(const char *name, EVP_PKEY *key, X509 *issuer, int days)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    unsigned char serial[16];
    BIGNUM *number;

    RAND_bytes(serial, sizeof(serial));
    serial[0] &= 0x7f; /* RFC 5280 4.1.2.2: serial numbers are positive */
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    X509_set_version(certificate, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600); /* an hour ago: clocks differ */
    X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, NULL);
    X509_set_pubkey(certificate, key);
    /* RFC 5280 allows 64 characters in a common name. Clients look at the alternative name only. */
    if (strlen(name) <= 64)
        X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                   (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer) : subject);
    return certificate;
}

static int finish_certificate(X509 *certificate, EVP_PKEY *key, EVP_PKEY *signer, char **ret_pem,
                              char **ret_key)
{
    _cleanup_(free_mem) char *pem = NULL;
    _cleanup_(free_mem) char *key_pem = NULL;

    if (X509_sign(certificate, signer, EVP_sha256()) == 0)
        return fault(-EIO, "sign a certificate");
    pem = certificate_to_pem(certificate);
    key_pem = key_to_pem(key);
    if (!pem || !key_pem)
        return fault(-EIO, "write a certificate");
    *ret_pem = take(pem);
    *ret_key = take(key_pem);
    return 0;
}

int x509_make_authority(const char *name, char **ret_certificate_pem, char **ret_key_pem)
{
    _cleanup_(pkey_clear) EVP_PKEY *key = EVP_EC_gen("P-256");
    _cleanup_(x509_clear) X509 *certificate =
        key ? new_certificate(name, key, NULL, AUTHORITY_DAYS) : NULL;

    if (!certificate
        || add_extension(certificate, certificate, NID_basic_constraints,
                         "critical,CA:TRUE,pathlen:0")
        || add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign")
        || add_extension(certificate, certificate, NID_subject_key_identifier, "hash"))
        return fault(-EIO, "make the local authority");
    return finish_certificate(certificate, key, key, ret_certificate_pem, ret_key_pem);
}

int x509_issue(const char *authority_pem, const char *authority_key_pem, const char *domain,
               char **ret_chain_pem, char **ret_key_pem)
{
    _cleanup_(chain_clear) STACK_OF(X509) *chain = read_chain(authority_pem);
    _cleanup_(pkey_clear) EVP_PKEY *authority_key = read_key(authority_key_pem);
    _cleanup_(pkey_clear) EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *authority = chain ? sk_X509_value(chain, 0) : NULL;
    _cleanup_(x509_clear) X509 *leaf = NULL;
    char names[300];

    if (!authority || !authority_key || !key)
        return fault(-EIO, "read the local authority");
    leaf = new_certificate(domain, key, authority, LEAF_DAYS);
    snprintf(names, sizeof(names), "DNS:%s", domain);
    if (add_extension(leaf, authority, NID_basic_constraints, "critical,CA:FALSE")
        || add_extension(leaf, authority, NID_key_usage, "critical,digitalSignature")
        || add_extension(leaf, authority, NID_ext_key_usage, "serverAuth")
        || add_extension(leaf, authority, NID_subject_alt_name, names)
        || add_extension(leaf, authority, NID_subject_key_identifier, "hash")
        || add_extension(leaf, authority, NID_authority_key_identifier, "keyid"))
        return fault(-EIO, "issue a local certificate");
    return finish_certificate(leaf, key, authority_key, ret_chain_pem, ret_key_pem);
}

static int make_saml_pair(EVP_PKEY *key, const char *name, const char *usage,
                          char **ret_certificate_pem, char **ret_key_pem)
{
    _cleanup_(x509_clear) X509 *certificate = new_certificate(name, key, NULL, SIGNER_DAYS);

    if (add_extension(certificate, certificate, NID_key_usage, usage))
        return fault(-EIO, "make a certificate of SAML");
    return finish_certificate(certificate, key, key, ret_certificate_pem, ret_key_pem);
}

int x509_make_signer(EVP_PKEY *key, const char *name, char **ret_certificate_pem,
                     char **ret_key_pem)
{
    return make_saml_pair(key, name, "digitalSignature", ret_certificate_pem, ret_key_pem);
}

int x509_make_recipient(EVP_PKEY *key, const char *name, char **ret_certificate_pem,
                        char **ret_key_pem)
{
    return make_saml_pair(key, name, "keyEncipherment", ret_certificate_pem, ret_key_pem);
}

/* Seconds from one time to another; from NULL: from now. -1: unreadable. */
static long seconds_between(const ASN1_TIME *from, const ASN1_TIME *to)
{
    int days, seconds;

    return ASN1_TIME_diff(&days, &seconds, from, to) ? (long)days * DAY + seconds : -1;
}

bool x509_is_due(const char *chain_pem)
{
    _cleanup_(chain_clear) STACK_OF(X509) *chain = read_chain(chain_pem);
    X509 *leaf = chain ? sk_X509_value(chain, 0) : NULL;

    return !leaf || seconds_between(NULL, X509_get0_notAfter(leaf)) <= RENEW_DAYS * DAY
           || seconds_between(X509_get0_notBefore(leaf), X509_get0_notAfter(leaf))
                  > (LEAF_DAYS + 1) * DAY;
}

int x509_days_left(const char *pem)
{
    _cleanup_(chain_clear) STACK_OF(X509) *chain = read_chain(pem);
    X509 *leaf = chain ? sk_X509_value(chain, 0) : NULL;
    int days, seconds;

    if (!leaf || !ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(leaf)))
        return 0;
    return seconds < 0 ? days - 1 : days;
}
