#include "common/out/outbound.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/invariant.h"
#include "common/out/connect_to.h"
#include "common/out/multi.h"
#include "common/out/permit.h"
#include "common/out/request.h"
#include "common/out/tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

enum {
    HEAD_BYTES_MAX = 64 * 1024, /* all heads of a request together: also 1xx and redirects */
    /* a connection may receive twice max_bytes and this: overhead of TLS and of chunks */
    WIRE_BYTES_EXTRA = 1 << 20,
    FIRST_BYTES = 4096,
    SOCKETS = 8,        /* more than libcurl connects at once for one name */
    RESOLVER_MS = 30000 /* the system's resolver may ask two servers three times, for 5 s each */
};

struct outbound {
    multi_t *multi;
    permit_t *permit;
    char *ca_file;
    struct curl_slist *connect_to;
    unsigned calls_max, calls_of_one;
    zlistx_t *calls;
    bool is_telling; /* on_answer is running */
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
    bool *reached;     /* the request's */
    bool is_permitted; /* at least one address of the host is */
    bool is_head;      /* the method is HEAD */
    bool has_head;     /* the head of the last response is complete */
    curl_socket_t sockets[SOCKETS],
        connected; /* the newest sockets; the one that the request was sent over */
    unsigned opened;
    uint64_t wire_bytes_0; /* received on the connection before the last response began */
    bool is_resolved;      /* the host name is resolved, or the host is an address */
    /* 0: in flight; else the request has ended, and its resolver thread will have by then
     * (monotonic ms) */
    int64_t over_ms;
    char denied[PERMIT_WHY_MAX]; /* the reason why an address was denied; "": none was */
    char said[CURL_ERROR_SIZE];
};

/* Free everything but the owner's name, which is still needed to count the call. */
static void call_release(outbound_call_t *self)
{
    curl_easy_cleanup(self->easy);
    self->easy = NULL;
    curl_url_cleanup(self->url);
    self->url = NULL;
    request_headers_free(&self->headers);
    if (self->body)
        sodium_memzero(self->body, self->body_bytes);
    free(take(self->body));
    if (self->received)
        sodium_memzero(self->received, self->received_bytes);
    free(take(self->received));
}

static void call_destroy(outbound_call_t **self_p)
{
    outbound_call_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    call_release(self);
    free(self->owner);
    free(self);
}

/* End a call. It stops counting against the limits at once, or, if its thread may still be in the
 * resolver, after RESOLVER_MS. Otherwise names whose DNS servers do not answer could take any
 * number of threads. */
static void call_leave(outbound_call_t *self)
{
    if (!self->is_resolved) {
        call_release(self);
        self->over_ms = zclock_mono() + RESOLVER_MS;
        return;
    }
    zlistx_detach(self->outbound->calls, self->handle);
    call_destroy(&self);
}

/* ---- callbacks of libcurl while a call is in flight ---- */

/* CURLOPT_OPENSOCKETFUNCTION: checks the address that libcurl will connect the socket to. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    outbound_call_t *self = context;
    curl_socket_t fd;

    (void)purpose;
    self->is_resolved = true;
    if (!permit_address(self->outbound->permit, &address->addr, self->denied))
        return CURL_SOCKET_BAD;
    self->is_permitted = true;
    fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                address->protocol);
    self->sockets[self->opened++ % SOCKETS] = fd;
    return fd;
}

/* CURLOPT_PREREQFUNCTION: connected, with TLS, and nothing is sent yet. libcurl tells the local
 * port, not the socket, so the socket is found by its port. */
static int note_connection(void *context, char *to, char *from, int to_port, int from_port)
{
    outbound_call_t *self = context;

    (void)to;
    (void)from;
    (void)to_port;
    if (self->reached)
        *self->reached = true;
    for (unsigned i = 0; i < SOCKETS && i < self->opened; i++)
        if (tcp_local_port(self->sockets[i]) == from_port)
            self->connected = self->sockets[i];
    return CURL_PREREQFUNC_OK;
}

/* CURLOPT_HEADERFUNCTION: one line of a head, also of 1xx responses and redirects, or of a
 * trailer. */
static size_t take_head(char *line, size_t size, size_t n, void *context)
{
    outbound_call_t *self = context;
    size_t len = size * n;

    if (len >= 5 && !memcmp(line, "HTTP/", 5)) {
        self->has_head = false;
        *self->denied = '\0'; /* a redirect may connect to another address, which is judged anew */
        self->is_permitted = false;
        self->wire_bytes_0 = tcp_bytes_received(self->connected);
    } else if (*line == '\n' || *line == '\r') {
        self->has_head = true;
    }
    self->head_bytes += len;
    self->is_too_large |= self->head_bytes > HEAD_BYTES_MAX;
    return self->is_too_large ? 0 : len;
}

/* CURLOPT_XFERINFOFUNCTION: bounds the bytes that libcurl reads without passing them to take_body:
 * bodies of redirects, and chunk extensions. */
static int watch_bytes(void *context, curl_off_t expected, curl_off_t received, curl_off_t to_send,
                       curl_off_t sent)
{
    outbound_call_t *self = context;

    (void)expected;
    (void)to_send;
    (void)sent;
    self->is_too_large |= received > (curl_off_t)self->max_bytes
                          || tcp_bytes_received(self->connected)
                                 > self->wire_bytes_0 + 2 * self->max_bytes + WIRE_BYTES_EXTRA;
    return self->is_too_large;
}

/* CURLOPT_WRITEFUNCTION. Not called for the body of a redirect that is followed. */
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

/* ---- the end of a call ---- */

/* Status of the last response; 0: none came. */
static unsigned status_of(const outbound_call_t *self)
{
    long status = 0;

    curl_easy_getinfo(self->easy, CURLINFO_RESPONSE_CODE, &status);
    return (unsigned)status;
}

/* The only header of that name. NULL: there is none, or more than one. */
static const char *only_header(const outbound_call_t *self, const char *name)
{
    struct curl_header *header;

    return curl_easy_header(self->easy, name, 0, CURLH_HEADER, -1, &header) || header->amount != 1
               ? NULL
               : header->value;
}

/* Does the response say, once, where its body ends (RFC 9112 6.3)? A body that ends with the
 * connection can be truncated by anybody who can close the connection; so can one in a transfer
 * coding other than chunked, and one of two lengths. */
static bool is_framed(const outbound_call_t *self)
{
    struct curl_header *header;
    unsigned status = status_of(self);
    const char *coding;

    if (self->is_head || status == 204 || status == 304)
        return true;
    if (curl_easy_header(self->easy, "Transfer-Encoding", 0, CURLH_HEADER, -1, &header))
        return only_header(self, "Content-Length");
    coding = only_header(self, "Transfer-Encoding");
    return coding && !strcasecmp(coding, "chunked")
           && curl_easy_header(self->easy, "Content-Length", 0, CURLH_HEADER, -1, &header);
}

static outbound_end_t end_of(const outbound_call_t *self, CURLcode result)
{
    if (self->is_too_large)
        return OUTBOUND_TOO_LARGE;
    switch (result) {
    case CURLE_OK:
        return self->has_head && is_framed(self) ? OUTBOUND_ANSWERED : OUTBOUND_BROKEN;
    case CURLE_FILESIZE_EXCEEDED:
        return OUTBOUND_TOO_LARGE;
    case CURLE_OUT_OF_MEMORY: /* libcurl 7.88 also reports a header line that is too long so */
        return self->has_head ? OUTBOUND_BROKEN : OUTBOUND_TOO_LARGE;
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
        return OUTBOUND_TOO_LARGE;
#endif
    case CURLE_COULDNT_RESOLVE_HOST:
        return OUTBOUND_NAME;
    case CURLE_COULDNT_CONNECT:
        return *self->denied && !self->is_permitted ? OUTBOUND_DENIED : OUTBOUND_CONNECT;
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
    case CURLE_UNSUPPORTED_PROTOCOL: /* also when the server answers with HTTP/0.9 */
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED: /* a name or password in a redirect's URL; request_url refuses one in
                                the request's own URL */
        return status_of(self) / 100 == 3 ? OUTBOUND_REDIRECTS : OUTBOUND_BROKEN;
    default:
        return OUTBOUND_BROKEN;
    }
}

static const char *end_reason(const outbound_call_t *self, outbound_end_t end, CURLcode result)
{
    if (end == OUTBOUND_DENIED)
        return self->denied;
    if (end == OUTBOUND_TOO_LARGE)
        return "the answer is larger than the request takes";
    if (result == CURLE_OK)
        return "the answer does not say where it ends, or was cut before it did";
    return *self->said ? self->said : curl_easy_strerror(result);
}

/* Report how the call ended, then free it or keep it for its resolver thread (call_leave). libcurl
 * must have removed its transfer before; the caller must not use self afterwards. */
static void end_call(outbound_call_t *self, outbound_end_t end, const char *why)
{
    outbound_t *outbound = self->outbound;

    self->is_resolved |= end != OUTBOUND_TIMEOUT && end != OUTBOUND_STOPPED;
    outbound->ended[end]++;
    outbound->is_telling = true;
    self->on_answer(self->context,
                    &(outbound_answer_t){.end = end,
                                         .why = why,
                                         .status = status_of(self),
                                         .body = self->received ? self->received : "",
                                         .body_bytes = self->received_bytes,
                                         .headers = self->easy});
    outbound->is_telling = false;
    call_leave(self);
}

static void on_done(void *context, CURL *easy, CURLcode result)
{
    outbound_call_t *call = NULL;
    outbound_end_t end;

    (void)context;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    end = end_of(call, result);
    end_call(call, end, end == OUTBOUND_ANSWERED ? "" : end_reason(call, end, result));
}

/* ---- the start of a call ---- */

/* Free the ended calls whose resolver thread has ended by now. */
static void reap_calls(outbound_t *self)
{
    int64_t now_ms = zclock_mono();

    for (outbound_call_t *call = zlistx_first(self->calls); call; call = zlistx_next(self->calls))
        if (call->over_ms && now_ms >= call->over_ms) {
            zlistx_detach(self->calls, call->handle);
            call_destroy(&call);
        }
}

/* May this owner start another request? 0 | -EDQUOT | -EAGAIN. */
static int check_share(outbound_t *self, const char *owner)
{
    unsigned own = 0;

    reap_calls(self);
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

    self->is_head = !strcmp(method, "HEAD");
    if (self->is_head)
        return curl_easy_setopt(self->easy, CURLOPT_NOBODY, 1L);
    if (!self->body)
        return strcmp(method, "GET") ? curl_easy_setopt(self->easy, CURLOPT_CUSTOMREQUEST, method)
                                     : CURLE_OK;
    r = curl_easy_setopt(self->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)self->body_bytes);
    if (!r)
        r = curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, self->body); /* not copied */
    return r ? r : curl_easy_setopt(self->easy, CURLOPT_CUSTOMREQUEST, method);
}

/* Set the options of every call, among them those that limit a hostile URL to an HTTP request to a
 * permitted address. */
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
    SET(PROXY, ""); /* ignore the proxy of the environment */
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    if (ca_file)
        SET(CAINFO, ca_file);
    if (self->outbound->connect_to)
        SET(CONNECT_TO, self->outbound->connect_to);
    SET(CAPATH, NULL); /* with a CAPATH libcurl loads all authorities for each connection */
    SET(TIMEOUT_MS, (long)request->timeout_ms);
    SET(NOSIGNAL, 1L);
    SET(QUICK_EXIT,
        1L); /* do not block the loop in curl_easy_cleanup until the resolver thread has ended */
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(OPENSOCKETDATA, self);
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(FRESH_CONNECT,
        1L); /* never share a connection: a peer could leave bytes in it for the next owner */
    SET(FORBID_REUSE, 1L);
    SET(MAXFILESIZE_LARGE, (curl_off_t)request->max_bytes);
    SET(NOPROGRESS, 0L);
    SET(XFERINFOFUNCTION, watch_bytes);
    SET(XFERINFODATA, self);
    SET(HEADERFUNCTION, take_head);
    SET(HEADERDATA, self);
    SET(WRITEFUNCTION, take_body);
    SET(WRITEDATA, self);
    SET(PREREQFUNCTION, note_connection);
    SET(PREREQDATA, self);
    SET(ERRORBUFFER, self->said);
    SET(USERAGENT, "postern");
    SET(PRIVATE, self);
#undef SET
    return r;
}

static int prepare_call(outbound_call_t *self, const outbound_request_t *request)
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
    self->reached = request->reached;
    self->connected = CURL_SOCKET_BAD;
    self->is_resolved = request_is_numeric(self->url);
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
    r = prepare_call(call, request);
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
    call_leave(call);
}

/* ---- the client ---- */

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
    if (settings->ca_file && *settings->ca_file && !(self->ca_file = strdup(settings->ca_file)))
        return fault(-ENOMEM, "the way out"); /* never run with other CAs than the operator's */
    r = permit_new(&self->permit, settings->own_sockets, settings->denied, settings->allowed,
                   ret_bad);
    if (!r)
        r = connect_to_read(&self->connect_to, settings->connect_to, ret_bad);
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

    if (!self)
        return;
    INVARIANT(!self->is_telling);
    self->calls_max = self->calls_of_one = 0; /* refuses new calls from the callbacks below */
    for (outbound_call_t *call; (call = zlistx_first(self->calls));) {
        if (!call->over_ms) {
            multi_stop(self->multi, call->easy);
            end_call(call, OUTBOUND_STOPPED, "the service stops");
        }
        if (call == zlistx_first(self->calls)) {
            zlistx_detach(self->calls, call->handle);
            call_destroy(&call);
        }
    }
    multi_destroy(&self->multi);
    zlistx_destroy(&self->calls);
    permit_destroy(&self->permit);
    free(self->ca_file);
    curl_slist_free_all(self->connect_to);
    free(self);
    *self_p = NULL; /* not before: callbacks of stopped calls may still call outbound_send */
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
