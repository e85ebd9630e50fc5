/* What a User-Agent says: uap-core's own cases, and ours. */
#include "common/base/cleanup.h"
#include "common/device/device.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define CASES "/usr/share/uap-core/tests/"

static device_patterns_t *debian(void)
{
    device_patterns_t *patterns = NULL;
    char why[200] = "";

    cr_assert_eq(device_patterns_load(&patterns, DEVICE_PATTERNS, why, sizeof(why)), 0, "%s", why);
    return patterns;
}

static const char *text_of(yaml_document_t *document, int node)
{
    return (const char *)yaml_document_get_node(document, node)->data.scalar.value;
}

/* The text of a pair of a map; "": there is none, or it says null. */
static const char *member(yaml_document_t *document, const yaml_node_t *map, const char *name)
{
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++)
        if (!strcmp(text_of(document, pair->key), name))
            return strcmp(text_of(document, pair->value), "null") ? text_of(document, pair->value)
                                                                  : "";
    return "";
}

/* Its numbers up to the first that is not there: of a browser three, of a system four. */
static void version_of(yaml_document_t *document, const yaml_node_t *map, size_t numbers, char *out,
                       size_t size)
{
    static const char *const names[] = {"major", "minor", "patch", "patch_minor"};
    size_t n = 0;

    *out = '\0';
    for (size_t i = 0; i < numbers && *member(document, map, names[i]); i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? "." : "",
                              member(document, map, names[i]));
}

typedef enum what { BROWSER, SYSTEM, FAMILY } what_t;

static void check_case(const device_patterns_t *patterns, yaml_document_t *document,
                       const yaml_node_t *map, what_t what)
{
    const char *agent = member(document, map, "user_agent_string");
    const char *family = member(document, map, "family"), *name, *version;
    char expected[200];
    device_t device;

    device_find(patterns, agent, strlen(agent), &device);
    name = what == BROWSER ? device.browser : what == SYSTEM ? device.os : device.family;
    version = what == BROWSER ? device.browser_version : device.os_version;
    if (!strcmp(family, "Other"))
        family = "";
    if (strlen(family) < DEVICE_NAME_MAX) /* a longer one is cut */
        cr_expect_str_eq(name, family, "%s: %s, not %s", agent, name, family);
    version_of(document, map, what == BROWSER ? 3 : 4, expected, sizeof(expected));
    if (what != FAMILY && *family && strlen(expected) < DEVICE_VERSION_MAX)
        cr_expect_str_eq(version, expected, "%s: %s %s, not %s", agent, name, version, expected);
}

/* All cases of a file; returns how many. Those with a longer header than is looked at are not
 * ours. */
static int check_file(const device_patterns_t *patterns, const char *path, what_t what)
{
    yaml_parser_t parser;
    yaml_document_t document;
    yaml_node_t *list;
    FILE *file = fopen(path, "r");
    int count = 0;

    cr_assert_not_null(file, "%s: install Debian's uap-core", path);
    cr_assert(yaml_parser_initialize(&parser));
    yaml_parser_set_input_file(&parser, file);
    cr_assert(yaml_parser_load(&parser, &document));
    list = yaml_document_get_node(
        &document, yaml_document_get_root_node(&document)->data.mapping.pairs.start->value);
    for (yaml_node_item_t *at = list->data.sequence.items.start; at < list->data.sequence.items.top;
         at++) {
        const yaml_node_t *map = yaml_document_get_node(&document, *at);

        if (strlen(member(&document, map, "user_agent_string")) > DEVICE_AGENT_MAX)
            continue;
        check_case(patterns, &document, map, what);
        count++;
    }
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    fclose(file);
    return count;
}

Test(device, names_browsers_as_uap_core_does)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = debian();

    cr_assert_gt(check_file(patterns, CASES "test_ua.yaml", BROWSER), 1000);
}

Test(device, names_systems_as_uap_core_does)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = debian();

    cr_assert_gt(check_file(patterns, CASES "test_os.yaml", SYSTEM), 400);
}

Test(device, names_devices_as_uap_core_does)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = debian();

    cr_assert_gt(check_file(patterns, CASES "test_device.yaml", FAMILY), 10000);
}

Test(device, has_the_type_that_users_expect)
{
    static const struct {
        const char *agent, *browser, *os, *type;
    } cases[] = {
        {"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox",
         "Linux", "desktop"},
        {"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/126.0.0.0 Safari/537.36",
         "Chrome", "Windows", "desktop"},
        {"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
         "Version/17.5 Safari/605.1.15",
         "Safari", "Mac OS X", "desktop"},
        {"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
         "Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
         "Mobile Safari", "iOS", "mobile"},
        {"Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
         "Version/12.1 Mobile/15E148 Safari/604.1",
         "Mobile Safari", "iOS", "tablet"},
        {"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/126.0.0.0 Mobile Safari/537.36",
         "Chrome Mobile", "Android", "mobile"},
        {"Mozilla/5.0 (Linux; Android 13; SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/126.0.0.0 Safari/537.36",
         "Chrome", "Android", "tablet"},
        {"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/126.0.0.0 Safari/537.36",
         "Chrome", "Chrome OS", "desktop"},
        {"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot",
         "", "bot"},
        {"Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) "
         "SamsungBrowser/2.1 TV Safari/537.36",
         "Samsung Internet", "Tizen", "other"},
        {"curl/8.5.0", "curl", "", "other"},
        {"", "", "", "other"},
        {"nobody knows this", "", "", "other"},
    };
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = debian();

    for (size_t i = 0; i < LEN(cases); i++) {
        device_t device;

        device_find(patterns, cases[i].agent, strlen(cases[i].agent), &device);
        cr_expect_str_eq(device.browser, cases[i].browser, "%s", cases[i].agent);
        cr_expect_str_eq(device.os, cases[i].os, "%s", cases[i].agent);
        cr_expect_str_eq(device.type, cases[i].type, "%s", cases[i].agent);
    }
}

static int parse(device_patterns_t **ret_patterns, const char *text, char *why, size_t size)
{
    return device_patterns_parse(ret_patterns, text, strlen(text), why, size);
}

#define OTHERS "os_parsers:\n  - regex: '(Sys) (\\d+)'\ndevice_parsers: []\n"

Test(device, without_patterns_nothing_is_known)
{
    device_t device;

    device_find(NULL, "curl/8", 6, &device);
    cr_assert_str_empty(device.browser);
    cr_assert_str_eq(device.type, "other");
}

Test(device, replacements_have_the_groups_in_them)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = NULL;
    char why[200];
    device_t device;

    cr_assert_eq(
        parse(&patterns,
              "more: {a: [1]}\nuser_agent_parsers:\n"
              "  - regex: 'x/(\\d+)(z?) (one|two)'\n"
              "    family_replacement: ' $3 of $1$2 '\n"
              "    v1_replacement: '$1'\n"
              "    v2_replacement: '7'\n"
              "  - regex: 'X'\n    regex_flag: 'i'\n    family_replacement: 'late'\n" OTHERS,
              why, sizeof(why)),
        0, "%s", why);
    device_find(patterns, "a x/12 two Sys 4", 16, &device);
    cr_assert_str_eq(device.browser, "two of 12");
    cr_assert_str_eq(device.browser_version, "12.7");
    cr_assert_str_eq(device.os, "Sys");
    cr_assert_str_eq(device.os_version, "4");
    device_find(patterns, "only an x", 9, &device);
    cr_assert_str_eq(device.browser, "late");
    cr_assert_str_empty(device.os);
}

Test(device, long_names_are_cut_between_characters)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = NULL;
    char why[200], agent[1000] = "n";
    device_t device;

    for (int i = 0; i < 300; i++)
        strcat(agent, "\xc3\xa9");
    cr_assert_eq(parse(&patterns, "user_agent_parsers:\n  - regex: '(.+)'\n" OTHERS, why, 200), 0);
    device_find(patterns, agent, strlen(agent), &device);
    cr_assert_eq(strlen(device.browser), 63);
    device_find(patterns, agent + 1, strlen(agent + 1), &device);
    cr_assert_eq(strlen(device.browser), 62);
}

Test(device, only_the_beginning_of_a_header_is_looked_at)
{
    _cleanup_(device_patterns_destroy) device_patterns_t *patterns = NULL;
    char why[200], agent[DEVICE_AGENT_MAX + 20];
    device_t device;

    memset(agent, 'a', sizeof(agent));
    memcpy(agent + DEVICE_AGENT_MAX - 2, "Sys 4", 5);
    cr_assert_eq(parse(&patterns, "user_agent_parsers: []\n" OTHERS, why, sizeof(why)), 0);
    device_find(patterns, agent, sizeof(agent), &device);
    cr_assert_str_empty(device.os);
    device_find(patterns, agent + 3, sizeof(agent) - 3, &device);
    cr_assert_str_eq(device.os, "Sys");
}

Test(device, what_is_no_file_of_patterns_is_refused)
{
    static const char *const cases[] = {
        "",
        "a",
        "[]",
        "{",
        "user_agent_parsers: []\n",
        "user_agent_parsers: x\n" OTHERS,
        "user_agent_parsers: [x]\n" OTHERS,
        "user_agent_parsers: [{}]\n" OTHERS,
        "user_agent_parsers: [{regex: []}]\n" OTHERS,
        "user_agent_parsers: [{regex: '('}]\n" OTHERS,
        "user_agent_parsers: [{regex: x, regex_flag: s}]\n" OTHERS,
        "user_agent_parsers: []\nuser_agent_parsers: []\n" OTHERS,
        "x: &a [1]\ny: *a\nuser_agent_parsers: []\n" OTHERS,
        "x: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\nuser_agent_parsers: []\n" OTHERS,
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        device_patterns_t *patterns = NULL;
        char why[200] = "";

        cr_expect_eq(parse(&patterns, cases[i], why, sizeof(why)), -EINVAL, "%s", cases[i]);
        cr_expect(*why, "%s", cases[i]);
        cr_expect_null(patterns);
    }
}

Test(device, a_file_that_is_none_says_so)
{
    device_patterns_t *patterns = NULL;
    char why[200];

    cr_assert_eq(device_patterns_load(&patterns, "/nowhere/at/all", why, sizeof(why)), -ENOENT);
    cr_assert_eq(device_patterns_load(&patterns, "/tmp", why, sizeof(why)), -EISDIR);
}
