/* What is around a SAML message: base64, DEFLATE, URL encoding; and its times. */
#include "common/base/cleanup.h"
#include "services/xml/envelope.h"
#include "services/xml/moment.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(free_mem) char *text = calloc(1, size + 1);
    char decoded[256];
    int64_t ms;

    memcpy(text, data, size);
    for (int is_deflated = 0; is_deflated < 2; is_deflated++) {
        _cleanup_(problem_done) problem_t problem = {0};
        _cleanup_(free_mem) char *xml = NULL;
        size_t len = 0;

        if (envelope_open(text, is_deflated, &xml, &len, &problem) == 0
            && (len > ENVELOPE_XML_MAX || xml[len] != '\0'))
            abort();
    }
    if (url_decode(text, decoded, sizeof(decoded)) && strlen(decoded) > strlen(text))
        abort();
    if (moment_parse(text, &ms) && ms < 0)
        abort();
    return 0;
}
