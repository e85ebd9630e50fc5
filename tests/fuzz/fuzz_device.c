/* What a User-Agent says: a header that anybody sends, to a few of uap-core's patterns; and the
 * reader of such patterns. Input: the header; or a file of patterns, a NUL, and the header. */
#include "common/device/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sample[] =
    "user_agent_parsers:\n"
    "  - regex: '(Pingdom\\.com_bot_version_)(\\d+)\\.(\\d+)'\n"
    "    family_replacement: 'Pingdom$1$2$9$'\n"
    "  - regex: '^(.{0,200})/(\\d+)(?:\\.(\\d+)|)(?:\\.(\\d+)|) CFNetwork'\n"
    "  - regex: '(Firefox|Chrome)/(\\d+)(?:\\.([^ ]+)|)'\n"
    "os_parsers:\n"
    "  - regex: '(Windows|Linux|Android)[ /-]?([^;]*);? ?(\\d+)?'\n"
    "device_parsers:\n"
    "  - regex: '(?:; "
    "{0,2}|^)((?:GT\\-[BIiNPS]\\d{4}|I9\\d{2}0[A-Za-z\\+]?\\b)[^;/\\)]*?)(?:Build|[;/\\)])'\n"
    "    device_replacement: ' Samsung $1 '\n"
    "  - regex: 'bot|spider'\n"
    "    regex_flag: 'i'\n"
    "    device_replacement: 'Spider'\n";

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void look_up(const device_patterns_t *patterns, const char *agent, size_t len)
{
    device_t device;

    device_find(patterns, agent, len, &device);
    check(memchr(device.browser, 0, sizeof(device.browser))
          && memchr(device.os, 0, sizeof(device.os))
          && memchr(device.browser_version, 0, sizeof(device.browser_version))
          && memchr(device.os_version, 0, sizeof(device.os_version))
          && memchr(device.family, 0, sizeof(device.family)) && device.type);
    check(*device.browser || !*device.browser_version);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static device_patterns_t *known;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    device_patterns_t *patterns = NULL;
    char why[200] = "";

    if (!known)
        check(!device_patterns_parse(&known, sample, sizeof(sample) - 1, why, sizeof(why)));
    if (!end) {
        look_up(known, (const char *)data, size);
        return 0;
    }
    if (device_patterns_parse(&patterns, (const char *)data, (size_t)(end - data), why,
                              sizeof(why)))
        check(*why != '\0');
    else
        look_up(patterns, (const char *)end + 1, size - (size_t)(end + 1 - data));
    device_patterns_destroy(&patterns);
    return 0;
}
