/* Where a webhook signer's certificate may lie, and what an edge and postern-fetch say to each
 * other. */
#include "common/codec/signer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CERT "SimpleNotificationService-9c6465fa7f48.pem"

static bool is_url(const char *text)
{
    signer_url_t url;

    return signer_url_read(text, strlen(text), &url);
}

Test(signer, urls_of_signers)
{
    static const char *const good[] = {
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9c6465fa7f48.pem",
        "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-1.pem",
        "https://sns.us-gov-west-1.amazonaws.com/SimpleNotificationService-0.pem",
        "https://sns.ap-southeast-12.amazonaws.com/SimpleNotificationService-abcdef.pem",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        cr_assert(is_url(good[i]), "%s", good[i]);
}

Test(signer, urls_that_are_none)
{
    static const char *const bad[] = {
        "",
        "https://",
        "http://sns.us-east-1.amazonaws.com/" CERT,
        "HTTPS://sns.us-east-1.amazonaws.com/" CERT,
        "//sns.us-east-1.amazonaws.com/" CERT,
        "https://user@sns.us-east-1.amazonaws.com/" CERT,
        "https://user:pass@sns.us-east-1.amazonaws.com/" CERT,
        "https://sns.us-east-1.amazonaws.com@evil.test/" CERT,
        "https://sns.us-east-1.amazonaws.com:443/" CERT,
        "https://sns.us-east-1.amazonaws.com:/" CERT,
        "https://sns.us-east-1.amazonaws.com./" CERT,
        "https://SNS.us-east-1.amazonaws.com/" CERT,
        "https://sns.US-EAST-1.amazonaws.com/" CERT,
        "https://sns.us-east-1.amazonaws.com.evil/" CERT,
        "https://sns.us-east-1.amazonaws.com.cn.evil/" CERT,
        "https://sns.evil.com.amazonaws.com.evil/" CERT,
        "https://sns.evil.test/.amazonaws.com/" CERT,
        "https://sns.evil.test#.amazonaws.com/" CERT,
        "https://sns.us-east-1.evil.amazonaws.com/" CERT,
        "https://xsns.us-east-1.amazonaws.com/" CERT,
        "https://sns.amazonaws.com/" CERT,
        "https://sns.s3-us-west-2.amazonaws.com/" CERT,
        "https://sns.s3-eu-west-1.amazonaws.com/" CERT,
        "https://sns.s3-accelerate.amazonaws.com/" CERT,
        "https://sns.s3-external-1.amazonaws.com/" CERT,
        "https://sns.us-east.amazonaws.com/" CERT,
        "https://sns.us-1.amazonaws.com/" CERT,
        "https://sns.us-east-123.amazonaws.com/" CERT,
        "https://sns.us--east-1.amazonaws.com/" CERT,
        "https://sns.us-east-1-.amazonaws.com/" CERT,
        "https://sns.us-e2ast-1.amazonaws.com/" CERT,
        "https://sns.usa-east-1.amazonaws.com/" CERT,
        "https://sns.us-east-1.amazonaws.com/a.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9G.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9A.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-9.pem.pem",
        "https://us-east-1.amazonaws.com/" CERT,
        "https://sns.us-east-1.s3.amazonaws.com/" CERT,
        "https://s3.amazonaws.com/sns.us-east-1.amazonaws.com/" CERT,
        "https://sns.ab.amazonaws.com/" CERT,
        "https://sns.-ab.amazonaws.com/" CERT,
        "https://sns.ab-.amazonaws.com/" CERT,
        "https://sns.1ab.amazonaws.com/" CERT,
        "https://sns.a_b.amazonaws.com/" CERT,
        "https://sns.xn--bcher-kva\xc3\xa4.amazonaws.com/" CERT,
        "https://sns.us%2deast.amazonaws.com/" CERT,
        "https://sns.us-east-1.amazonaws.com/",
        "https://sns.us-east-1.amazonaws.com/.pem",
        "https://sns.us-east-1.amazonaws.com/..pem",
        "https://sns.us-east-1.amazonaws.com/a/b.pem",
        "https://sns.us-east-1.amazonaws.com//b.pem",
        "https://sns.us-east-1.amazonaws.com/../b.pem",
        "https://sns.us-east-1.amazonaws.com/%2e.pem",
        "https://sns.us-east-1.amazonaws.com/" CERT "?x=1",
        "https://sns.us-east-1.amazonaws.com/?Action=x&y=.pem",
        "https://sns.us-east-1.amazonaws.com/a#.pem",
        "https://sns.us-east-1.amazonaws.com/a;x.pem",
        "https://sns.us-east-1.amazonaws.com/a.PEM",
        "https://sns.us-east-1.amazonaws.com/" CERT " ",
        "https://sns.us-east-1.amazonaws.com\\/" CERT,
        " https://sns.us-east-1.amazonaws.com/" CERT,
        "https://sns.a234567890123456789012345678901234.amazonaws.com/" CERT,
    };
    char longest[SIGNER_URL_MAX + 8];
    signer_url_t url;
    int len;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_assert(!is_url(bad[i]), "%s", bad[i]);
    cr_assert(!signer_url_read("https://sns.us-east-1.amazonaws.com/a\0.pem", 42, &url));
    len = snprintf(longest, sizeof(longest),
                   "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-%0*d.pem",
                   SIGNER_URL_MAX - 66, 7);
    cr_assert_eq(len, SIGNER_URL_MAX);
    cr_assert(is_url(longest));
    snprintf(longest, sizeof(longest),
             "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-%0*d.pem",
             SIGNER_URL_MAX - 65, 7);
    cr_assert(!is_url(longest));
}

static void assert_names(const char *text, const char *const *want)
{
    signer_url_t url;
    char name[256];
    unsigned n = 0;

    cr_assert(signer_url_read(text, strlen(text), &url));
    for (; want[n]; n++) {
        cr_assert(signer_url_name(&url, n, name, sizeof(name)));
        cr_assert_str_eq(name, want[n]);
    }
    cr_assert(!signer_url_name(&url, n, name, sizeof(name)));
}

Test(signer, names_of_signers)
{
    assert_names("https://sns.eu-south-1.amazonaws.com/" CERT,
                 (const char *const[]){"sns.eu-south-1.amazonaws.com",
                                       "sns-signing.eu-south-1.amazonaws.com",
                                       "sns-eu-south-1.amazonaws.com", "sns.amazonaws.com", NULL});
    assert_names("https://sns.cn-north-1.amazonaws.com.cn/" CERT,
                 (const char *const[]){
                     "sns.cn-north-1.amazonaws.com.cn", "sns-signing.cn-north-1.amazonaws.com.cn",
                     "sns-cn-north-1.amazonaws.com.cn", "sns.amazonaws.com.cn", NULL});
    assert_names("https://sns.us-gov-east-1.amazonaws.com/" CERT,
                 (const char *const[]){
                     "sns.us-gov-east-1.amazonaws.com", "sns-signing.us-gov-east-1.amazonaws.com",
                     "sns-us-gov-west-1.amazonaws.com", "sns.amazonaws.com", NULL});
}

Test(signer, packets_of_another_form_are_none)
{
    signer_ask_t ask, got;
    signer_told_t told, heard;

    signer_ask_init(&ask, 7, "ac_1", "https://sns.us-east-1.amazonaws.com/" CERT);
    cr_assert(signer_ask_read(&got, &ask, sizeof(ask)));
    cr_assert_eq(memcmp(&ask, &got, sizeof(ask)), 0);
    cr_assert(!signer_ask_read(&got, &ask, sizeof(ask) - 1));
    ask.form++;
    cr_assert(!signer_ask_read(&got, &ask, sizeof(ask)));
    signer_ask_init(&ask, 7, "ac_1", "https://sns.us-east-1.amazonaws.com/" CERT);
    memset(ask.url, 'x', sizeof(ask.url));
    cr_assert(!signer_ask_read(&got, &ask, sizeof(ask)));

    signer_told_init(&told, 7, SIGNER_REFUSED, "why");
    cr_assert(signer_told_read(&heard, &told, sizeof(told)));
    told.outcome = SIGNER_LATER + 1;
    cr_assert(!signer_told_read(&heard, &told, sizeof(told)));
    told.outcome = SIGNER_KEY;
    cr_assert(!signer_told_read(&heard, &told, sizeof(told)), "without a key");
    told.key_len = sizeof(told.key) + 1;
    cr_assert(!signer_told_read(&heard, &told, sizeof(told)));
    told.key_len = 1;
    memset(told.why, 'x', sizeof(told.why));
    cr_assert(!signer_told_read(&heard, &told, sizeof(told)));
}
