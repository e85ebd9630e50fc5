/* Parameters of a query or a form, and the target that one of them names. */
#include "services/edge/http/params.h"
#include "services/edge/modules/sign_in_rules.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    params_t params = {0};
    char *memory = malloc(size + 1), *value;

    if (!memory)
        return 0;
    if (params_parse_form(&params, (const char *)data, size, memory) == 0)
        for (size_t i = 0; i < params.count; i++) {
            const param_t *one = &params.each[i];

            if (one->value < memory || one->value + one->value_len > memory + size
                || memchr(one->value, '\0', one->value_len))
                abort();
            (void)sign_in_is_target(one->value, one->value_len);
            value = malloc(3 * one->value_len + 1);
            if (!value)
                abort();
            for (size_t k = sign_in_value(value, one->value, one->value_len, i & 1); k-- > 0;)
                if ((unsigned char)value[k] < 0x20 || (unsigned char)value[k] >= 0x7f)
                    abort();
            free(value);
        }
    free(memory);
    return 0;
}
