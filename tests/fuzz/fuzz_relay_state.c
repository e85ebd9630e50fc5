/* RelayState of a SAML response that nobody asked for: it leads to a path of the route, or to
 * nothing. */
#include "services/identity/saml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge_target(const char *target, const char *home)
{
    size_t len = strlen(home), path = strcspn(target, "?#"); /* dots of a query lead nowhere */

    if (len && home[len - 1] == '/')
        len--;
    if (*target != '/' || target[1] == '/' || strchr(target, '\\')
        || memmem(target, path, "/../", 4) || strncmp(target, home, len) != 0
        || !strncmp(target, "/auth/", 6))
        abort();
    for (const char *at = target; *at; at++)
        if (*at <= ' ' || *at == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const homes[] = {"", "/", "/app", "/app/"};
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
        const char *target = saml_target(text, "a.test:1", homes[i]);

        if (target)
            judge_target(target, homes[i]);
    }
    free(text);
    return 0;
}
