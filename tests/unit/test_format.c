/* Named formats of the tables: what is accepted, and in which one spelling it is kept. */
#include "common/base/cleanup.h"
#include "common/schema/format.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

struct format_case {
    char format[24], value[320];
    char kept[320]; /* "": refused */
};

ParameterizedTestParameters(format, one_spelling)
{
    static struct format_case cases[] = {
        {"endpoint_url", "https://app.example.test", "https://app.example.test"},
        {"endpoint_url", "HTTPS://App.Example.Test.:443/", "https://app.example.test"},
        {"endpoint_url", "http://app.example.test:80", "http://app.example.test"},
        {"endpoint_url", "https://app.example.test:80", "https://app.example.test:80"},
        {"endpoint_url", "tls://app.example.test", "tls://app.example.test:443"},
        {"endpoint_url", "https://*.example.test", "https://*.example.test"},
        {"endpoint_url", "tcp://localhost:20000", "tcp://localhost:20000"},
        {"endpoint_url", "tcp://localhost", ""},
        {"endpoint_url", "tcp://*.example.test:1", ""},
        {"endpoint_url", "app.example.test", ""},
        {"endpoint_url", "ftp://app.example.test", ""},
        {"endpoint_url", "https:app.example.test", ""},
        {"endpoint_url", "https://", ""},
        {"endpoint_url", "https:///", ""},
        {"endpoint_url", "https://:443", ""},
        {"endpoint_url", "https://.:443", ""},
        {"endpoint_url", "https://app.example.test:", ""},
        {"endpoint_url", "https://app.example.test:0", ""},
        {"endpoint_url", "https://app.example.test:65536", ""},
        {"endpoint_url", "https://app.example.test:443/x", ""},
        {"endpoint_url", "https://app.example.test/x", ""},
        {"endpoint_url", "https://app.example.test//", ""},
        {"endpoint_url", "https://app.example.test?q", ""},
        {"endpoint_url", "https://app.example.test#f", ""},
        {"endpoint_url", "https://user@app.example.test", ""},
        {"endpoint_url", "https://app.example.test\\", ""},
        {"endpoint_url", "https://app example.test", ""},
        {"endpoint_url", "https://[2001:db8::1]", ""},
        {"scope", "openid", "openid"},
        {"scope", "urn:a/b?c#[d]", "urn:a/b?c#[d]"},
        {"scope", "openid email", ""},
        {"scope", " openid", ""},
        {"scope", "", ""},
        {"scope", "a\"b", ""},
        {"scope", "a\\b", ""},
        {"scope", "a\tb", ""},
        {"scope", "\xc3\xa9", ""},
        {"audience", "https://api.example.test/", "https://api.example.test/"},
        {"audience", "an API", "an API"},
        {"audience", "", ""},
        {"audience", "a\nb", ""},
        {"hostport", "App.Example.Test.:443", "app.example.test:443"},
        {"hostport", "app.example.test:80", ""},
        {"tcp_hostport", "localhost:20000", "localhost:20000"},
        {"tcp_hostport", "localhost", ""},
        {"domain", "App.Example.Test.", "app.example.test"},
        {"domain", "192.0.2.1", ""},
        {"domain", "*.Example.Test.", "*.example.test"},
        {"domain", "*.test", ""},
        {"domain", "*.Test.", ""},
        {"domain", "test", ""},
        {"domain", "*.", ""},
        {"domain", "*.*.test", ""},
        {"rfc3339", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"},
        {"rfc3339", "2026-01-31t12:00:00.250z", "2026-01-31T12:00:00Z"},
        {"rfc3339", "2026-01-31T00:30:00+01:00", "2026-01-30T23:30:00Z"},
        {"rfc3339", "2026-01-31T23:30:00-01:00", "2026-02-01T00:30:00Z"},
        {"rfc3339", "2024-02-29T00:00:00-00:00", "2024-02-29T00:00:00Z"},
        {"rfc3339", " 2026-01-31T12:00:00Z", ""},
        {"rfc3339", "2026-01-31T12:00:00Z ", ""},
        {"rfc3339", "+026-01-31T12:00:00Z", ""},
        {"rfc3339", "2026-+1-31T12:00:00Z", ""},
        {"rfc3339", "2026- 1-31T12:00:00Z", ""},
        {"rfc3339", "2026--1-31T12:00:00Z", ""},
        {"rfc3339", "2026-01-31T+1:00:00Z", ""},
        {"rfc3339", "2026-01-31T12: 0:00Z", ""},
        {"rfc3339", "2026-01-31T12:00:-0Z", ""},
        {"rfc3339", "2026-01-31T12:00:00+ 1:00", ""},
        {"rfc3339", "2026-01-31T12:00:00++1:00", ""},
        {"rfc3339", "2026-01-31T12:00:00+-1:00", ""},
        {"rfc3339", "2026-01-31T12:00:00+1:00", ""},
        {"rfc3339", "2026-01-31T12:00:00+01:0", ""},
        {"rfc3339", "2026-01-31T12:00:00+01:000", ""},
        {"rfc3339", "2026-01-31T12:00:00+0100", ""},
        {"rfc3339", "2026-01-31T12:00:00+24:00", ""},
        {"rfc3339", "2026-01-31T12:00:00 01:00", ""},
        {"rfc3339", "2026-01-31T12:00:00", ""},
        {"rfc3339", "2026-01-31T12:00:00.Z", ""},
        {"rfc3339", "2026-01-31T12:00:00,5Z", ""},
        {"rfc3339", "2026-01-31 12:00:00Z", ""},
        {"rfc3339", "2026-02-29T12:00:00Z", ""},
        {"rfc3339", "2026-13-01T12:00:00Z", ""},
        {"rfc3339", "2026-00-01T12:00:00Z", ""},
        {"rfc3339", "2026-01-00T12:00:00Z", ""},
        {"rfc3339", "2026-01-31T24:00:00Z", ""},
        {"rfc3339", "2026-01-31T12:60:00Z", ""},
        {"rfc3339", "2026-01-31T12:00:60Z", ""},
        {"rfc3339", "1969-12-31T23:59:59Z", ""},
        {"rfc3339", "9999-12-31T23:59:59-01:00", ""},
        {"rfc3339", "20260131T120000Z", ""},
        {"rfc3339", "", ""},
        {"cidr", "2001:DB8:0:0::/32", "2001:db8::/32"},
        {"cidr", "192.0.2.1/24", ""},
        {"https_url", "https://a.test/x", "https://a.test/x"},
        {"https_url", "http://a.test", ""},
    };

    return cr_make_param_array(struct format_case, cases, LEN(cases));
}

ParameterizedTest(struct format_case *one, format, one_spelling)
{
    const char *why = NULL;
    char out[320] = "";
    int r = format_check(one->format, ERR_INVALID_FIELD, one->value, out, sizeof(out), &why);

    if (!*one->kept) {
        cr_assert_gt(r, 0, "%s is refused", one->value);
        cr_assert_not_null(why);
    } else {
        cr_assert_eq(r, 0, "%s: %s", one->value, why ? why : "");
        cr_assert_str_eq(out, one->kept);
    }
}

Test(format, where_a_scheme_has_no_place_it_is_named)
{
    static const struct {
        const char *format, *value;
    } cases[] = {{"address", "http://127.0.0.1:3000"},
                 {"address", "https://app.example.test/"},
                 {"hostport", "https://app.example.test:443"}};

    for (size_t i = 0; i < LEN(cases); i++) {
        const char *why = "";
        char out[320] = "";

        cr_assert_gt(format_check(cases[i].format, ERR_INVALID_FIELD, cases[i].value, out,
                                  sizeof(out), &why),
                     0);
        cr_assert_str_eq(why, "must be host:port, without a scheme", "%s: %s", cases[i].value, why);
    }
}
