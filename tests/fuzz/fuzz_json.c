/* A request body: JSON, then every kind's table. And the same bytes as if they were a row's text.
 */
#include "common/schema/schema.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render_text(const uint8_t *data, size_t size)
{
    char *row = malloc(size + 1);
    msgpack_sbuffer out;

    memcpy(row, data, size);
    row[size] = '\0';
    msgpack_sbuffer_init(&out);
    for (const kind_t *kind = kind_all(); kind->name; kind++) {
        (void)schema_text(&out, kind, row, "http://x");
        msgpack_sbuffer_clear(&out);
    }
    msgpack_sbuffer_destroy(&out);
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned operations[] = {OPERATION_CREATE, OPERATION_UPDATE};
    json_t *body = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

    for (const kind_t *kind = kind_all(); body && kind->name; kind++)
        for (int i = 0; i < 2; i++) {
            problem_t problem = {0};
            json_t *out = NULL;

            if (!schema_check(kind, operations[i], body, body, &problem, &out)) {
                json_t *rendered = schema_render(kind, out, "http://x");

                if (!rendered)
                    abort();
                json_decref(rendered);
            }
            json_decref(out);
            problem_done(&problem);
        }
    json_decref(body);
    render_text(data, size);
    return 0;
}
