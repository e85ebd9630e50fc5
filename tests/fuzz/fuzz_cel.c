/* Lexer, parser, checker and the compiler of list filters. */
#include "common/resource/filter.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static filter_t filter;
    static const char *const kinds[] = {"credential", "ip_policy_rule", "tls_certificate"};
    problem_t problem = {0};
    char *source = malloc(size + 1);

    memcpy(source, data, size);
    source[size] = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!filter_compile(&filter, kind_find(kinds[i]), source, 4, &problem)
            && (!*filter.sql || strlen(filter.sql) >= sizeof(filter.sql) - 1))
            abort();
        else
            filter_done(&filter);
    problem_done(&problem);
    free(source);
    return 0;
}
