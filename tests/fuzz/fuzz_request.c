/* A request as a tenant may write it: the first line is its method, the second its URL, the others
 * are headers. What is taken has no line's end in it, and names no protocol but HTTP. */
#include "common/out/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_headers(const outbound_request_t *request)
{
    struct curl_slist *headers = NULL;

    if (request_headers(&headers, request))
        return;
    for (struct curl_slist *one = headers; one; one = one->next)
        if (strpbrk(one->data, "\r\n") || !strpbrk(one->data, ":;") || *one->data == ':')
            abort();
    request_headers_free(&headers);
}

static void check_url(const char *text)
{
    CURLU *url = NULL;
    char *whole = NULL;
    bool is_plain;

    if (request_url(&url, text, true, &is_plain))
        return;
    if (!curl_url_get(url, CURLUPART_URL, &whole, 0)
        && (strpbrk(whole, "\r\n")
            || strncmp(whole, is_plain ? "http://" : "https://", 7 + !is_plain)))
        abort();
    curl_free(whole);
    curl_url_cleanup(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEADERS = 32 };
    const char *headers[HEADERS + 1] = {NULL};
    char *text = strndup((const char *)data, size), *rest = text;
    outbound_request_t request = {
        .owner = "ac_1", .headers = headers, .timeout_ms = 1000, .max_bytes = 1000};

    request.method = strsep(&rest, "\n");
    request.url = strsep(&rest, "\n");
    for (int i = 0; i < HEADERS && rest; i++)
        headers[i] = strsep(&rest, "\n");
    if (!request_check(&request) && strpbrk(request.method, "\r \t"))
        abort();
    check_headers(&request);
    check_url(request.url);
    free(text);
    return 0;
}
