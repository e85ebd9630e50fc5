/* A request body: JSON, then every kind's table. */
#include "proto/schema.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *body = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

    for (const kind_t *kind = kind_all(); body && kind->name; kind++)
        for (unsigned operation = CREATE; operation <= UPDATE; operation *= UPDATE) {
            problem_t problem = {0};
            json_t *out = NULL;

            if (!schema_check(kind, operation, body, &problem, &out))
                json_decref(schema_render(kind, out, "http://x"));
            json_decref(out);
            problem_done(&problem);
        }
    json_decref(body);
    return 0;
}
