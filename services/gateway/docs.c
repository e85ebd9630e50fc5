#include "services/gateway/docs.h"
#include "common/base/embed.h"

#include <string.h>

EMBED(docs_index_html, "services/gateway/docs/index.html");
EMBED(docs_init_js, "services/gateway/docs/init.js");
EMBED(docs_bundle_js, "services/gateway/docs/swagger-ui-bundle.js");
EMBED(docs_css, "services/gateway/docs/swagger-ui.css");

/* The viewer sets style attributes and draws its icons from data: URLs, so the policy allows
 * both. */
const char docs_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
    "data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const docs_file_t *docs_find(const char *path)
{
    static docs_file_t files[] = {
        {"/docs", "text/html; charset=utf-8", docs_index_html, 0},
        {"/docs/init.js", "text/javascript; charset=utf-8", docs_init_js, 0},
        {"/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8", docs_bundle_js, 0},
        {"/docs/swagger-ui.css", "text/css; charset=utf-8", docs_css, 0},
    };

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (!strcmp(files[i].path, path)) {
            if (!files[i].len)
                files[i].len = strlen(files[i].text);
            return &files[i];
        }
    return NULL;
}
