/* What the API shows of the browser that a session is in. */
#include "common/base/cleanup.h"
#include "common/device/device.h"
#include "services/identity/browser.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const setting_t settings[] = {
    {"device-patterns", SETTING_STR, NULL, 0, 0, ""},
    {"place-cities", SETTING_STR, "", 0, 0, ""},
    {"place-networks", SETTING_STR, "", 0, 0, ""},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static int setup(const char *patterns, const char *networks)
{
    static config_t config;
    char path[200], more[200], program[] = "browser";
    char *args[] = {program, path, more, NULL};

    snprintf(path, sizeof(path), "--device-patterns=%s", patterns);
    snprintf(more, sizeof(more), "--place-networks=%s", networks);
    cr_assert_eq(config_parse(&config, settings, "", 3, args), 0);
    return browser_setup(&config);
}

static const char *text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

Test(browser, has_names_and_an_address)
{
    _cleanup_(json_clear_ref) json_t *session = NULL;
    const json_t *agent;

    cr_assert_eq(setup(DEVICE_PATTERNS, ""), 0);
    session = browser_describe("192.0.2.7", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) "
                                            "Gecko/20100101 Firefox/140.0");
    agent = json_object_get(session, "user_agent");
    cr_assert_str_eq(text(agent, "browser_name"), "Firefox");
    cr_assert_str_eq(text(agent, "browser_version"), "140.0");
    cr_assert_str_eq(text(agent, "os_name"), "Linux");
    cr_assert_str_eq(text(agent, "os_version"), "");
    cr_assert_str_eq(text(agent, "device_type"), "desktop");
    cr_assert_str_eq(text(session, "ip_address"), "192.0.2.7");
    cr_assert(json_is_null(json_object_get(session, "location")));
    cr_assert(json_is_null(json_object_get(session, "network")));
}

Test(browser, without_patterns_it_has_no_names)
{
    _cleanup_(json_clear_ref) json_t *session = NULL;
    const json_t *agent;

    cr_assert_eq(setup("", ""), 0);
    session = browser_describe(NULL, "curl/8");
    agent = json_object_get(session, "user_agent");
    cr_assert_str_eq(text(agent, "raw"), "curl/8");
    cr_assert_str_eq(text(agent, "browser_name"), "");
    cr_assert_str_eq(text(agent, "device_type"), "other");
    cr_assert_str_eq(text(session, "ip_address"), "");
}

Test(browser, what_is_no_address_is_none)
{
    _cleanup_(json_clear_ref) json_t *session = NULL;

    cr_assert_eq(setup("", ""), 0);
    session = browser_describe("2001:DB8:0::1", NULL);
    cr_assert_str_eq(text(session, "ip_address"), "2001:db8::1");
    json_decref(session);
    session = browser_describe("not one", NULL);
    cr_assert_str_eq(text(session, "ip_address"), "");
}

/* A process sets it up once. */
Test(browser, patterns_that_a_setting_names_must_be_there)
{
    cr_assert_neq(setup("/nowhere", ""), 0);
}

Test(browser, patterns_that_a_setting_names_must_be_some)
{
    cr_assert_neq(setup("/dev/null", ""), 0);
}

Test(browser, a_database_that_a_setting_names_must_be_there)
{
    cr_assert_neq(setup("", "/nowhere"), 0);
}

Test(browser, a_database_that_a_setting_names_must_be_one)
{
    cr_assert_neq(setup("", "/etc/passwd"), 0);
}
