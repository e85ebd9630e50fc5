/* The bytes of an HTTP answer. Every value in a header is the gateway's own, or was checked when it
 * came. */
#include "common/base/cleanup.h"
#include "services/gateway/gateway.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

typedef struct text {
    char *data;
    size_t len, size;
    bool failed;
} text_t;

static void append_bytes(text_t *self, const char *data, size_t len)
{
    if (!self->failed && self->len + len >= self->size) {
        size_t size = (self->len + len) * 2 + 1024;
        char *grown = realloc(self->data, size);

        self->failed = !grown;
        if (grown) {
            self->data = grown;
            self->size = size;
        }
    }
    if (self->failed)
        return;
    memcpy(self->data + self->len, data, len);
    self->len += len;
}

static void append_header(text_t *self, const char *name, const char *value)
{
    append_bytes(self, name, strlen(name));
    append_bytes(self, ": ", 2);
    append_bytes(self, value, strlen(value));
    append_bytes(self, "\r\n", 2);
}

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "";
}

/* A request header that the answer repeats, if it is short enough; else NULL. */
static const char *echoed_header(const call_t *call, const char *name)
{
    const char *value = http_header(call, name);

    return value && strlen(value) < 1024 ? value : NULL;
}

static void add_cors(text_t *out, const call_t *call)
{
    const char *origin = echoed_header(call, "Origin");
    const char *request_headers = echoed_header(call, "Access-Control-Request-Headers");

    if (!origin)
        return;
    append_header(out, "Access-Control-Allow-Origin", origin);
    append_header(out, "Access-Control-Allow-Credentials", "true");
    append_header(out, "Vary", "Origin");
    append_header(out, "Access-Control-Expose-Headers",
                  "Postern-Operation-Id, Postern-Revision, Postern-Edges, Postern-Streams-Ended");
    if (strcmp(call->method, "OPTIONS"))
        return;
    append_header(out, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
    append_header(out, "Access-Control-Max-Age", "600");
    if (request_headers)
        append_header(out, "Access-Control-Allow-Headers", request_headers);
}

static void add_framing(text_t *out, const call_t *call, bool closes, size_t content_length)
{
    char number[32], date[40];
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &utc);
    append_header(out, "Date", date);
    append_header(out, "Connection", closes ? "close" : "keep-alive");
    if (call->status == 204)
        return;
    snprintf(number, sizeof(number), "%zu", content_length);
    append_header(out, "Content-Length", number);
}

static void add_about(text_t *out, const call_t *call, bool has_text)
{
    char wait[16];

    if (call->file) {
        append_header(out, "Content-Type", call->file->type);
        append_header(out, "Content-Security-Policy", docs_policy);
    } else if (has_text) {
        append_header(out, "Content-Type", "application/json");
    }
    append_header(out, "Postern-Operation-Id", call->operation_id);
    append_header(out, "Ngrok-Operation-Id",
                  call->operation_id); /* official clients read this name */
    append_header(out, "Cache-Control", "no-store");
    append_header(out, "X-Content-Type-Options", "nosniff");
    if (*call->revision)
        append_header(out, "Postern-Revision", call->revision);
    if (*call->edges)
        append_header(out, "Postern-Edges", call->edges);
    if (*call->streams_ended)
        append_header(out, "Postern-Streams-Ended", call->streams_ended);
    if (call->allow)
        append_header(out, "Allow", call->allow);
    if (call->status == 401)
        append_header(out, "WWW-Authenticate", "Bearer");
    if (*call->etag)
        append_header(out, "ETag", call->etag);
    if (call->status == 429 || call->status == 503) {
        snprintf(wait, sizeof(wait), "%d", call->retry_after ? call->retry_after : 1);
        append_header(out, "Retry-After", wait);
    }
}

char *answer_make(call_t *call, bool closes, size_t *ret_len, const docs_file_t **ret_file)
{
    bool has_text = call->text || call->answer;
    _cleanup_(free_mem) char *text = call->text     ? take(call->text)
                                     : call->answer ? json_dumps(call->answer, JSON_COMPACT)
                                                    : NULL;
    size_t len = call->file ? call->file->len : text ? strlen(text) : 0;
    text_t out = {0};
    char status[64];

    snprintf(status, sizeof(status), "HTTP/1.1 %u %s\r\n", call->status, reason_of(call->status));
    append_bytes(&out, status, strlen(status));
    add_framing(&out, call, closes, len);
    add_about(&out, call, has_text);
    add_cors(&out, call);
    append_bytes(&out, "\r\n", 2);
    if (text && !call->head)
        append_bytes(&out, text, len);
    if (out.failed || (call->answer && !text)) {
        free(out.data);
        return NULL;
    }
    *ret_len = out.len;
    *ret_file = call->head ? NULL : call->file;
    return out.data;
}
