/* Values of Authorization: a service token and a JWT lie within the value, and have their shape. */
#include "services/edge/modules/bearer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *value = malloc(size ? size : 1); /* without a byte behind it */
    bearer_text_t text;

    if (!value)
        return 0;
    if (size)
        memcpy(value, data, size);
    text = bearer_token(value, size);
    if (text.at) {
        if (text.at < value || text.at + text.len > value + size
            || (text.len != 0 && text.len != BEARER_TOKEN_LEN))
            abort();
        for (size_t i = 0; i < text.len; i++)
            if (!memchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                        text.at[i], 63))
                abort();
    }
    text = bearer_jwt(value, size);
    if (text.at) {
        if (text.at < value || text.at + text.len > value + size || text.len > BEARER_JWT_MAX)
            abort();
        for (size_t i = 0; i < text.len; i++)
            if (!memchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.",
                        text.at[i], 65))
                abort();
    }
    free(value);
    return 0;
}
