/* Files of authorities that settings name. */
#include "common/base/authorities.h"

#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/postern-authorities-XXXXXX";
static char why[200];

/* A file of so many certificates, with what stands before and behind them. */
static int check(const char *before, int certificates, const char *behind)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    int fd = mkstemp(path), r;
    FILE *file = fdopen(fd, "w");

    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 60);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    fputs(before, file);
    while (certificates--)
        PEM_write_X509(file, certificate);
    fputs(behind, file);
    fclose(file);
    r = authorities_check(path, why, sizeof(why));
    unlink(path);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    X509_free(certificate);
    EVP_PKEY_free(key);
    return r;
}

Test(authorities, are_certificates_with_whatever_stands_between)
{
    cr_assert_eq(check("", 1, ""), 0);
    cr_assert_eq(check("# an authority\n\n", 3, "the end\n"), 0);
    cr_assert_eq(check("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", 1, ""), 0);
}

Test(authorities, without_one_the_file_is_refused)
{
    cr_assert_neq(check("", 0, ""), 0);
    cr_assert_str_eq(why, "holds no certificate in PEM form");
    cr_assert_neq(check("junk\n", 0, ""), 0);
    cr_assert_str_eq(why, "holds no certificate in PEM form");
}

Test(authorities, one_that_cannot_be_read_refuses_all)
{
    static const char bad[] = "-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n";
    static const char other[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    cr_assert_neq(check(bad, 1, ""), 0);
    cr_assert_str_eq(why, "has a certificate that cannot be read, behind 0 that can");
    cr_assert_neq(check("", 2, other), 0);
    cr_assert_str_eq(why, "has a certificate that cannot be read, behind 2 that can");
    cr_assert_neq(check("", 1, "-----BEGIN CERTIFICATE-----\nAAAA\n"), 0);
}

Test(authorities, what_is_no_file_is_refused)
{
    cr_assert_neq(authorities_check("/nowhere", why, sizeof(why)), 0);
    cr_assert_str_eq(why, "cannot be read: No such file or directory");
    cr_assert_neq(authorities_check("/tmp", why, sizeof(why)), 0);
    cr_assert_str_eq(why, "is no file");
    cr_assert_neq(authorities_check("/dev/null", why, sizeof(why)), 0);
}

Test(authorities, those_of_the_system_are)
{
    cr_assert_eq(authorities_check("/etc/ssl/certs/ca-certificates.crt", why, sizeof(why)), 0, "%s",
                 why);
}
