/* GET /docs: the API's reference, a viewer (swagger-ui, from npm, in services/gateway/docs) over
 * /openapi.json. Its files are part of the program. */
#pragma once

#include <stddef.h>

/* One embedded file. Any number of answers send it from where it lies. */
typedef struct docs_file {
    const char *path, *type;
    const char *text;
    size_t len; /* bytes of text */
} docs_file_t;

/* Find a file by its URL path; NULL: no such file. */
const docs_file_t *docs_find(const char *path);

/* Content-Security-Policy of the page: it may load nothing from another host. */
extern const char docs_policy[];
