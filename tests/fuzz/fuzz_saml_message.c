/* A message of SAML's single logout in a query string: what is taken is one message, decoded, and
 * the pieces as they came, none of which can end another. */
#include "services/identity/saml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge_message(const json_t *message, const char *query)
{
    const json_t *relay = json_object_get(message, "relay");
    const char *state = json_string_value(json_object_get(message, "relay_state")), *key;
    json_t *value;

    if (!json_object_get(relay, "request") == !json_object_get(relay, "response")
        || !*json_string_value(json_object_get(message, "message")))
        abort();
    for (; state && *state; state++)
        if ((unsigned char)*state < 0x20 || *state == 0x7f)
            abort();
    json_object_foreach((json_t *)relay, key, value)
    {
        if (strchr(json_string_value(value), '&') || !strstr(query, json_string_value(value)))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    json_t *message = NULL;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!saml_message_read(text, NULL, &message))
        judge_message(message, text);
    json_decref(message);
    free(text);
    return 0;
}
