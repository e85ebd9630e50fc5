#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "services/edge/http/forwarded.h"

static forwarded_t of(const char *name)
{
    return forwarded_of((const unsigned char *)name, strlen(name));
}

Test(forwarded, every_row_is_found_with_minus_and_underscore)
{
    static const struct {
        const char *name;
        forwarded_t who;
    } rows[] = {
#define FORWARDED(name, who, what) {name, FORWARDED_##who},
#include "proto/forwarded.def"
    };
    char name[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(name, sizeof(name), "%s", rows[i].name);
        for (char *p = name; *p; p++)
            if (*p == '*')
                strcpy(p, "any");
        cr_assert_eq(of(name), rows[i].who, "%s", name);
        for (char *p = name; *p; p++)
            if (*p == '-')
                *p = '_';
        cr_assert_eq(of(name), rows[i].who, "%s", name);
        if (!strchr(rows[i].name, '*') && rows[i].who == FORWARDED_PROXY) {
            strcat(name, "z");
            cr_assert(of(name) == FORWARDED_NONE || strncmp(name, "x_forward", 9) == 0, "%s", name);
        }
    }
}

Test(forwarded, forwarded_for_proto_and_host_are_told_apart)
{
    cr_assert_eq(of("x-forwarded-for"), FORWARDED_FOR);
    cr_assert_eq(of("x_forwarded_proto"), FORWARDED_PROTO);
    cr_assert_eq(of("x-forwarded-host"), FORWARDED_HOST);
    cr_assert_eq(of("x-forwarded-hosts"), FORWARDED_PROXY);
    cr_assert_eq(of("x-forwarded"), FORWARDED_PROXY);
}

Test(forwarded, what_clients_send_is_none)
{
    static const char *const names[] = {
        "",
        "x",
        "x-",
        "x-x",
        "host",
        "cookie",
        "referer",
        "accept-language",
        "range",
        "origin",
        "te",
        "user-agent",
        "via",
        "forward",
        "x-requested-with",
        "x-csrf-token",
        "remote",
        "client",
        "postern",
        "ngrok",
        "ngrok-skip-browser-warning",
        "x-http-method-override",
        "authorization",
        "content-type",
        "sec-fetch-mode",
        "x-api-key",
        "x-request-id",
        "traceparent",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_eq(of(names[i]), FORWARDED_NONE, "%s", names[i]);
}
