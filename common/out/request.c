#include "common/out/request.h"
#include "common/base/address.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

static const char token_chars[] = "!#$%&'*+-.^_`|~0123456789"
                                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static const char *const not_the_callers[] = {
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "proxy-connection",
    "proxy-authorization",
};

int request_check(const outbound_request_t *request)
{
    const char *method = request->method ? request->method : "GET";
    size_t len = strspn(method, token_chars);
    bool is_get = !strcmp(method, "GET");

    if (!request->owner || !len || len > 32 || method[len])
        return -EINVAL;
    if (!request->timeout_ms || request->timeout_ms > REQUEST_TIMEOUT_MS_MAX)
        return -EINVAL;
    if (!request->url || strlen(request->url) > REQUEST_URL_MAX)
        return -EINVAL;
    if (request->max_bytes > REQUEST_BYTES_MAX || request->body_bytes > REQUEST_BYTES_MAX)
        return -EINVAL;
    if (request->body && (is_get || !strcmp(method, "HEAD")))
        return -EINVAL;
    /* the target of a redirect must not see the headers and the body */
    return request->redirects && (!is_get || request->headers) ? -EINVAL : 0;
}

int request_url(CURLU **ret_url, const char *text, bool may_be_plain, bool *ret_is_plain)
{
    CURLU *url = curl_url();
    char *scheme = NULL;
    int r = -EINVAL;

    if (!url)
        return -ENOMEM;
    if (text && !curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER)
        && !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0)) {
        *ret_is_plain = !strcmp(scheme, "http");
        if (!strcmp(scheme, "https") || (*ret_is_plain && may_be_plain))
            r = 0;
    }
    curl_free(scheme);
    if (r)
        curl_url_cleanup(url);
    else
        *ret_url = url;
    return r;
}

bool request_is_numeric(CURLU *url)
{
    struct sockaddr_storage address;
    char *host = NULL;
    bool is_numeric =
        !curl_url_get(url, CURLUPART_HOST, &host, 0) && address_parse(host, 0, &address);

    curl_free(host);
    return is_numeric;
}

/* Length of the name of a header field; 0: it is not a valid field (RFC 9110 5.1, 5.5). */
static size_t name_of(const char *header)
{
    size_t len = strspn(header, token_chars);

    if (!len || header[len] != ':')
        return 0;
    for (const char *p = header + len; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return 0;
    return len;
}

static bool is_callers(const char *name, size_t len)
{
    for (size_t i = 0; i < LEN(not_the_callers); i++)
        if (strlen(not_the_callers[i]) == len && !strncasecmp(not_the_callers[i], name, len))
            return false;
    return true;
}

static int append_header(struct curl_slist **headers, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*headers, header);

    if (longer)
        *headers = longer;
    return longer ? 0 : -ENOMEM;
}

/* Append a field. For libcurl "Name:" removes a field, so one with an empty value is written as
 * "Name;". */
static int append_field(struct curl_slist **headers, const char *header, size_t name_len)
{
    char *text;
    int r;

    if (header[name_len + 1 + strspn(header + name_len + 1, " \t")])
        return append_header(headers, header);
    if (asprintf(&text, "%.*s;", (int)name_len, header) < 0)
        return -ENOMEM;
    r = append_header(headers, text);
    free(text);
    return r;
}

int request_headers(struct curl_slist **ret_headers, const outbound_request_t *request)
{
    struct curl_slist *headers = NULL;
    /* with a body, libcurl adds the Content-Type of a form unless the header is set or removed */
    bool has_type = !request->body;
    size_t bytes = 0;
    int r = append_header(&headers, "Expect:");

    for (const char *const *header = request->headers; !r && header && *header; header++) {
        size_t len = name_of(*header);

        bytes += strlen(*header);
        has_type |= len == 12 && !strncasecmp(*header, "content-type", len);
        r = len && is_callers(*header, len) && bytes <= REQUEST_HEADERS_MAX
                ? append_field(&headers, *header, len)
                : -EINVAL;
    }
    if (!r && !has_type)
        r = append_header(&headers, "Content-Type:");
    if (r)
        request_headers_free(&headers);
    *ret_headers = headers;
    return r;
}

void request_headers_free(struct curl_slist **headers_p)
{
    for (struct curl_slist *one = *headers_p; one; one = one->next)
        sodium_memzero(one->data, strlen(one->data));
    curl_slist_free_all(*headers_p);
    *headers_p = NULL;
}
