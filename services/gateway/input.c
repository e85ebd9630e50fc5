/* Parses the bytes of a connection into calls: head and body of one request after the other.
 * Malformed input is answered with an error, and nothing after it is read. */
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "services/gateway/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { EMPTY_LINES_MAX = 8 /* empty lines before a request (RFC 9112 2.2) */ };

void input_done(connection_t *self)
{
    if (self->head_text) /* the head has an API key in it */
        explicit_bzero(self->head_text, self->head_len);
    free(self->head_text);
    self->head_text = NULL;
    self->head_len = 0;
    memset(&self->head, 0, sizeof(self->head));
    body_done(&self->body);
    memset(&self->chunks, 0, sizeof(self->chunks));
}

static call_t *input_new_call(connection_t *self)
{
    call_t *call = memory_new(sizeof(*call), "a call");
    struct in_addr address = {.s_addr = self->address};

    INVARIANT(!self->call); /* one request at a time: the call before would be lost */
    call->gateway = self->gateway;
    call->connection = self;
    call->started_ms = bus_mono_ms();
    id_make("op", call->operation_id);
    snprintf(call->method, sizeof(call->method), "-");
    call->base = config_str(
        self->gateway->config,
        self->proxy && *config_str(self->gateway->config, "proxy-url") ? "proxy-url" : "api-url");
    if (!self->proxy)
        inet_ntop(AF_INET, &address, call->ip, sizeof(call->ip));
    self->call = call;
    self->gateway->metrics.requests++;
    return call;
}

void input_refuse(connection_t *self, int code, const char *why)
{
    call_t *call = self->call;

    if (!call) {
        call = input_new_call(self);
        call->path = memory_copy("-", "a path");
    }
    self->closes = true;
    self->in_len = 0;
    self->gateway->metrics.malformed++;
    call_refuse(call, code, NULL, why);
    connection_begin_answer(self);
}

/* The client's address: over the proxy's socket the proxy says it, else it is the peer's. False:
 * the proxy did not say exactly one. */
static bool input_set_client(connection_t *self, call_t *call)
{
    return !self->proxy || framing_client(&self->head, call->ip);
}

/* is_whole: all of the body is there; else its sender is asked for first. */
static void input_begin_call(connection_t *self, bool is_whole)
{
    call_t *call = input_new_call(self);
    char *query = strchr(self->head.target, '?');

    self->phase = CALL;
    self->closes = self->head.closes;
    if (query)
        *query++ = '\0';
    call->path = memory_copy(self->head.target, "a path");
    query_unescape(call->path);
    call->query_text = query;
    call->head = !strcmp(self->head.method, "HEAD");
    snprintf(call->method, sizeof(call->method), "%s", call->head ? "GET" : self->head.method);
    call->has_body = self->body.len || self->head.content_length;
    call->is_whole = is_whole;
    path_match(call->method, call->path, &call->target);
    if (input_set_client(self, call))
        call_begin(call);
    else
        call_refuse(call, ERR_MALFORMED, NULL,
                    "The proxy must name its client in one X-Forwarded-For.");
    if (call->state == ANSWERED)
        connection_begin_answer(self);
}

void input_begin_body(connection_t *self)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

    self->phase = BODY; /* the deadline covers head and body together, but not what services took */
    if (self->call)
        self->deadline_ms += bus_mono_ms() - self->call->started_ms;
    if (self->head.expects_continue && !self->in_len && self->fd >= 0)
        send(self->fd, go_on, sizeof(go_on) - 1,
             MSG_NOSIGNAL); /* best effort: clients go on after a second without it */
    self->head.expects_continue = false;
}

/* All of the body is there. */
static void input_end_body(connection_t *self)
{
    call_t *call = self->call;

    if (!call) {
        input_begin_call(self, true);
        return;
    }
    self->phase = CALL;
    call->is_whole = true;
    call_go_on(call);
    if (call->state == ANSWERED)
        connection_begin_answer(self);
}

/* Drop the first len bytes of the input: the head or chunk that was read. */
static void consume_input(connection_t *self, size_t len)
{
    INVARIANT(len <= self->in_len);
    self->in_len -= len;
    memmove(self->in, self->in + len, self->in_len);
}

/* Skip empty lines before a request (RFC 9112 2.2); a CR whose LF has not come yet may be one. They
 * begin no request, so they do not move its deadline. False: there are too many. */
static bool skip_empty_lines(connection_t *self)
{
    size_t len = 0;

    if (self->began)
        return true;
    while (self->in_len - len >= 2 && memcmp(self->in + len, "\r\n", 2) == 0
           && self->empty_lines <= EMPTY_LINES_MAX) {
        self->empty_lines++;
        len += 2;
    }
    if (len)
        consume_input(self, len);
    if (self->in_len && (self->in_len > 1 || *self->in != '\r')) {
        self->began = true;
        connection_enter(self, HEAD, CONNECTION_READ_MS);
    }
    return self->empty_lines <= EMPTY_LINES_MAX;
}

/* Move the first len bytes of the input into head_text, ended with NUL. False: no memory. */
static bool keep_head(connection_t *self, size_t len)
{
    INVARIANT(!self->head_text && len <= self->in_len);
    self->head_text = malloc(len + 1);
    if (!self->head_text)
        return false;
    memcpy(self->head_text, self->in, len);
    self->head_text[len] = '\0';
    self->head_len = len;
    consume_input(self, len);
    self->scanned = 0;
    return true;
}

bool input_take_head(connection_t *self)
{
    const char *why;
    size_t len;
    int r;

    if (!skip_empty_lines(self)) {
        input_refuse(self, ERR_MALFORMED, "There are too many empty lines before the request.");
        return true;
    }
    if (!self->began)
        return false;
    r = framing_scan(self->in, self->in_len, &self->scanned, &len, &why);
    if (!r && !len)
        return false;
    if (!r && !keep_head(self, len)) {
        connection_shut(self);
        return true;
    }
    if (!r)
        r = framing_parse(self->head_text, len, &self->head, &why);
    if (!r && self->head.content_length > BODY_MAX)
        r = ERR_BODY_TOO_LARGE;
    if (r) {
        input_refuse(self, r, why);
        return true;
    }
    if (self->head.content_length > BODY_SMALL)
        input_begin_call(self, false);
    else if (self->head.chunked || self->head.content_length)
        input_begin_body(self);
    else
        input_begin_call(self, true);
    return true;
}

bool input_take_body(connection_t *self)
{
    const char *why = NULL;
    size_t used, len;
    bool done = false;
    int r = 0;

    if (!self->in_len)
        return false;
    if (self->head.chunked) {
        r = chunks_take(&self->chunks, self->in, self->in_len, &used, &len, &done, &why);
    } else {
        size_t left = (size_t)self->head.content_length - self->body.len;

        INVARIANT(self->body.len < self->head.content_length);
        used = len = self->in_len < left ? self->in_len : left;
        done = len == left;
    }
    INVARIANT(r || len <= self->in_len);
    if (!r)
        r = body_add(&self->body, self->in, len);
    if (r) {
        input_refuse(self, r, why);
        return true;
    }
    consume_input(self, used);
    if (done)
        input_end_body(self);
    else if (!self->call && self->body.len > BODY_SMALL)
        input_begin_call(self, false);
    else
        return false;
    return true;
}
