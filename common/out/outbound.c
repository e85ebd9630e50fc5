#include "common/out/outbound.h"
#include "common/base/address.h"
#include "common/base/err.h"
#include "common/out/multi.h"
#include "common/out/request.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum {
    HEAD_BYTES_MAX = 64 * 1024, /* of all heads: of interim answers and of redirects, too */
    KEPT_CONNECTIONS = 32,
    FIRST_BYTES = 4096
};

struct outbound {
    multi_t *multi;
    address_rules_t *rules, *loopback;
    char *ca_file;
    unsigned calls_max, calls_of_one;
    zlistx_t *calls;
    uint64_t ended[OUTBOUND_ENDS], turned_away;
};

struct outbound_call {
    outbound_t *outbound;
    void *handle; /* in outbound's calls */
    CURL *easy;
    CURLU *url;
    struct curl_slist *headers;
    char *owner, *body;
    size_t body_bytes;
    outbound_fn on_answer;
    void *context;

    char *received;
    size_t received_bytes, received_room, max_bytes, head_bytes;
    bool is_too_large;
    const char *denied; /* why an address was */
    char said[CURL_ERROR_SIZE];
};

static void call_destroy(outbound_call_t **self_p)
{
    outbound_call_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    curl_easy_cleanup(self->easy);
    curl_url_cleanup(self->url);
    request_headers_free(&self->headers);
    if (self->body)
        sodium_memzero(self->body, self->body_bytes);
    free(self->body);
    free(self->received);
    free(self->owner);
    free(self);
}

/* ---- what libcurl asks while a call is on its way ---- */

/* CURLOPT_OPENSOCKETFUNCTION: the address is what it will be connected to. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    outbound_call_t *self = context;
    const char *why = address_fault(self->outbound->rules, &address->addr);

    (void)purpose;
    if (!why && address_fault(self->outbound->loopback, &address->addr))
        why = "is a loopback address";
    if (why) {
        self->denied = why;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                  address->protocol);
}

static size_t take_head(char *line, size_t size, size_t n, void *context)
{
    outbound_call_t *self = context;

    (void)line;
    self->head_bytes += size * n;
    self->is_too_large |= self->head_bytes > HEAD_BYTES_MAX;
    return self->is_too_large ? 0 : size * n;
}

/* The body of a redirect that is followed is not given to us. */
static size_t take_body(char *data, size_t size, size_t n, void *context)
{
    outbound_call_t *self = context;
    size_t bytes = size * n, room = self->received_room ? self->received_room : FIRST_BYTES;

    if (bytes > self->max_bytes - self->received_bytes) {
        self->is_too_large = true;
        return 0;
    }
    while (room < self->received_bytes + bytes)
        room *= 2;
    if (room != self->received_room) {
        char *grown = realloc(self->received, room);

        if (!grown)
            return 0;
        self->received = grown;
        self->received_room = room;
    }
    memcpy(self->received + self->received_bytes, data, bytes);
    self->received_bytes += bytes;
    return bytes;
}

/* ---- how a call ends ---- */

/* Of the last response; 0: none came. */
static unsigned status_of(const outbound_call_t *self)
{
    long status = 0;

    curl_easy_getinfo(self->easy, CURLINFO_RESPONSE_CODE, &status);
    return (unsigned)status;
}

static outbound_end_t end_of(const outbound_call_t *self, CURLcode result)
{
    switch (result) {
    case CURLE_OK:
        return OUTBOUND_ANSWERED;
    case CURLE_COULDNT_RESOLVE_HOST:
        return OUTBOUND_NAME;
    case CURLE_COULDNT_CONNECT:
        return self->denied ? OUTBOUND_DENIED : OUTBOUND_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        return OUTBOUND_TLS;
    case CURLE_OPERATION_TIMEDOUT:
        return OUTBOUND_TIMEOUT;
    case CURLE_TOO_MANY_REDIRECTS:
        return OUTBOUND_REDIRECTS;
    case CURLE_UNSUPPORTED_PROTOCOL: /* also of what speaks HTTP/0.9 */
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED: /* a name or password in the URL; the request's own was looked at
                                before it began */
        return status_of(self) / 100 == 3 ? OUTBOUND_REDIRECTS : OUTBOUND_BROKEN;
    default:
        return self->is_too_large ? OUTBOUND_TOO_LARGE : OUTBOUND_BROKEN;
    }
}

static const char *reason(const outbound_call_t *self, outbound_end_t end, CURLcode result)
{
    if (end == OUTBOUND_DENIED)
        return self->denied;
    if (end == OUTBOUND_TOO_LARGE)
        return "the answer is larger than the request takes";
    return *self->said ? self->said : curl_easy_strerror(result);
}

/* Frees the call, which is no longer among libcurl's. */
static void end_call(outbound_call_t *self, outbound_end_t end, const char *why)
{
    zlistx_detach(self->outbound->calls, self->handle);
    self->outbound->ended[end]++;
    self->on_answer(self->context,
                    &(outbound_answer_t){.end = end,
                                         .why = why,
                                         .status = status_of(self),
                                         .body = self->received ? self->received : "",
                                         .body_bytes = self->received_bytes,
                                         .headers = self->easy});
    call_destroy(&self);
}

static void on_done(void *context, CURL *easy, CURLcode result)
{
    outbound_call_t *call = NULL;
    outbound_end_t end;

    (void)context;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    end = end_of(call, result);
    end_call(call, end, end == OUTBOUND_ANSWERED ? "" : reason(call, end, result));
}

/* ---- how one begins ---- */

/* 0 | -EDQUOT | -EAGAIN */
static int check_share(const outbound_t *self, const char *owner)
{
    unsigned own = 0;

    for (outbound_call_t *call = zlistx_first(self->calls); call; call = zlistx_next(self->calls))
        own += !strcmp(call->owner, owner);
    if (own >= self->calls_of_one)
        return -EDQUOT;
    return zlistx_size(self->calls) >= self->calls_max ? -EAGAIN : 0;
}

static CURLcode set_method(outbound_call_t *self, const outbound_request_t *request)
{
    const char *method = request->method ? request->method : "GET";
    CURLcode r;

    if (!strcmp(method, "HEAD"))
        return curl_easy_setopt(self->easy, CURLOPT_NOBODY, 1L);
    if (!self->body)
        return strcmp(method, "GET") ? curl_easy_setopt(self->easy, CURLOPT_CUSTOMREQUEST, method)
                                     : CURLE_OK;
    r = curl_easy_setopt(self->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)self->body_bytes);
    if (!r)
        r = curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, self->body); /* not copied */
    return r ? r : curl_easy_setopt(self->easy, CURLOPT_CUSTOMREQUEST, method);
}

/* What is the same for every call, and what keeps a hostile URL from anything but an HTTP request
 * to a permitted address. */
static CURLcode set_bounds(outbound_call_t *self, const outbound_request_t *request, bool is_plain)
{
    const char *protocols = is_plain ? "http,https" : "https";
    const char *ca_file = self->outbound->ca_file;
    CURLcode r = CURLE_OK;

#define SET(option, value)                                                                         \
    if (!r)                                                                                        \
    r = curl_easy_setopt(self->easy, CURLOPT_##option, value)
    SET(PROTOCOLS_STR, protocols);
    SET(REDIR_PROTOCOLS_STR, protocols);
    SET(FOLLOWLOCATION, (long)(request->redirects > 0));
    SET(MAXREDIRS, (long)request->redirects);
    SET(DISALLOW_USERNAME_IN_URL, 1L);
    SET(PROXY, ""); /* whatever the environment says */
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    if (ca_file) {
        SET(CAINFO, ca_file);
        SET(CAPATH, NULL);
    }
    SET(TIMEOUT_MS, (long)request->timeout_ms);
    SET(NOSIGNAL, 1L);
    SET(QUICK_EXIT,
        1L); /* or the end of a call waits for its thread in the resolver, and everybody with it */
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(OPENSOCKETDATA, self);
    SET(HEADERFUNCTION, take_head);
    SET(HEADERDATA, self);
    SET(WRITEFUNCTION, take_body);
    SET(WRITEDATA, self);
    SET(MAXCONNECTS, (long)KEPT_CONNECTIONS);
    SET(ERRORBUFFER, self->said);
    SET(USERAGENT, "postern");
    SET(PRIVATE, self);
#undef SET
    return r;
}

static int prepare(outbound_call_t *self, const outbound_request_t *request)
{
    bool is_plain;
    CURLcode r;
    int e = request_url(&self->url, request->url, request->may_be_plain, &is_plain);

    if (!e)
        e = request_headers(&self->headers, request);
    if (e)
        return e;
    self->easy = curl_easy_init();
    self->owner = strdup(request->owner);
    if (request->body) {
        self->body_bytes = request->body_bytes;
        self->body = malloc(self->body_bytes + 1);
        if (self->body)
            memcpy(self->body, request->body, self->body_bytes);
    }
    if (!self->easy || !self->owner || (request->body && !self->body))
        return -ENOMEM;
    self->max_bytes = request->max_bytes;
    r = set_bounds(self, request, is_plain);
    if (!r)
        r = set_method(self, request);
    if (!r)
        r = curl_easy_setopt(self->easy, CURLOPT_HTTPHEADER, self->headers);
    if (!r)
        r = curl_easy_setopt(self->easy, CURLOPT_CURLU, self->url);
    return r ? -ENOMEM : 0;
}

int outbound_send(outbound_t *self, const outbound_request_t *request, outbound_fn on_answer,
                  void *context, outbound_call_t **ret_call)
{
    outbound_call_t *call;
    int r = request_check(request);

    if (!r)
        r = check_share(self, request->owner);
    if (r) {
        self->turned_away += r != -EINVAL;
        return r;
    }
    call = calloc(1, sizeof(*call));
    if (!call)
        return -ENOMEM;
    call->outbound = self;
    call->on_answer = on_answer;
    call->context = context;
    r = prepare(call, request);
    if (!r)
        r = multi_start(self->multi, call->easy);
    if (r) {
        call_destroy(&call);
        return r;
    }
    call->handle = zlistx_add_end(self->calls, call);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void outbound_cancel(outbound_call_t **call_p)
{
    outbound_call_t *call = *call_p;

    *call_p = NULL;
    if (!call)
        return;
    multi_stop(call->outbound->multi, call->easy);
    zlistx_detach(call->outbound->calls, call->handle);
    call_destroy(&call);
}

/* ---- the whole ---- */

int outbound_new(outbound_t **ret_outbound, zloop_t *loop, const outbound_settings_t *settings,
                 char **ret_bad)
{
    outbound_t *self = calloc(1, sizeof(*self));
    int r;

    *ret_outbound = NULL;
    *ret_bad = NULL;
    if (!self)
        return fault(-ENOMEM, "the way out");
    self->calls_max = settings->calls;
    self->calls_of_one = settings->calls_of_one;
    self->calls = zlistx_new();
    if (settings->ca_file && *settings->ca_file)
        self->ca_file = strdup(settings->ca_file);
    r = address_rules_new(&self->rules, settings->own_sockets, settings->denied, settings->allowed,
                          ret_bad);
    if (!r)
        r = address_rules_new(&self->loopback, NULL, "127.0.0.0/8 ::1", settings->allowed, ret_bad);
    if (r)
        r = fault(r, "rules of addresses");
    else
        r = multi_new(&self->multi, loop, on_done, self);
    if (r)
        outbound_destroy(&self);
    *ret_outbound = self;
    return r;
}

void outbound_destroy(outbound_t **self_p)
{
    outbound_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    self->calls_max = 0; /* nothing begins any more */
    for (outbound_call_t *call; (call = zlistx_first(self->calls));) {
        multi_stop(self->multi, call->easy);
        end_call(call, OUTBOUND_STOPPED, "the service stops");
    }
    multi_destroy(&self->multi);
    zlistx_destroy(&self->calls);
    address_rules_destroy(&self->rules);
    address_rules_destroy(&self->loopback);
    free(self->ca_file);
    free(self);
}

const char *outbound_header(const outbound_answer_t *answer, const char *name)
{
    struct curl_header *header, *last;

    if (curl_easy_header(answer->headers, name, 0, CURLH_HEADER, -1, &header))
        return NULL;
    if (header->amount > 1
        && !curl_easy_header(answer->headers, name, header->amount - 1, CURLH_HEADER, -1, &last))
        return last->value;
    return header->value;
}

static const char *const end_names[OUTBOUND_ENDS] = {
    [OUTBOUND_ANSWERED] = "answered", [OUTBOUND_DENIED] = "denied",
    [OUTBOUND_NAME] = "name",         [OUTBOUND_CONNECT] = "connect",
    [OUTBOUND_TLS] = "tls",           [OUTBOUND_TIMEOUT] = "timeout",
    [OUTBOUND_TOO_LARGE] = "large",   [OUTBOUND_REDIRECTS] = "redirects",
    [OUTBOUND_BROKEN] = "broken",     [OUTBOUND_STOPPED] = "stopped",
};

const char *outbound_end_name(outbound_end_t end)
{
    return end_names[end];
}

size_t outbound_metrics(const outbound_t *self, const char *service, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size,
                                "postern_%s_outbound_in_flight %zu\n"
                                "postern_%s_outbound_turned_away_total %" PRIu64 "\n",
                                service, zlistx_size(self->calls), service, self->turned_away);

    for (int i = 0; i < OUTBOUND_ENDS && n < size; i++)
        n += (size_t)snprintf(out + n, size - n,
                              "postern_%s_outbound_total{end=\"%s\"} %" PRIu64 "\n", service,
                              end_names[i], self->ended[i]);
    return n;
}
