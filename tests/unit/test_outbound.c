/* The way out, against a server of the test's own on a loopback address: what it answers stands
 * beside each test. */
#include "common/out/outbound.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- a server ---- */

typedef struct server {
    int file;
    uint16_t port;
    SSL_CTX *tls; /* NULL: plain */
    const char *answers[4];
    bool stays_silent; /* takes the request and answers nothing */
    bool floods;       /* never ends what it began to say */
    atomic_int requests;
    char request[4096];
    pthread_t thread;
} server_t;

static void serve(server_t *self, int client, const char *answer)
{
    SSL *ssl = self->tls ? SSL_new(self->tls) : NULL;
    size_t len = 0;
    ssize_t n = 1;

    if (ssl) {
        SSL_set_fd(ssl, client);
        n = SSL_accept(ssl);
    }
    while (n > 0 && len < sizeof(self->request) - 1 && !strstr(self->request, "\r\n\r\n")) {
        char *to = self->request + len;
        size_t room = sizeof(self->request) - 1 - len;

        n = ssl ? SSL_read(ssl, to, (int)room) : read(client, to, room);
        len += n > 0 ? (size_t)n : 0;
        self->request[len] = '\0';
    }
    if (n > 0) {
        self->requests++;
        if (self->floods)
            memset(self->request, 'x', sizeof(self->request));
        if (self->stays_silent)
            (void)!read(client, &n, 1);
        else if (ssl)
            SSL_write(ssl, answer, (int)strlen(answer));
        else
            (void)!write(client, answer, strlen(answer));
        while (self->floods && write(client, self->request, sizeof(self->request)) > 0)
            ;
    }
    if (ssl) {
        SSL_shutdown(ssl);
        SSL_free(ssl);
    }
    close(client);
}

static void *run_server(void *context)
{
    server_t *self = context;
    int client, turn = 0;

    while ((client = accept(self->file, NULL, NULL)) >= 0) {
        memset(self->request, 0, sizeof(self->request));
        serve(self, client, self->answers[turn]);
        if (turn < 3 && self->answers[turn + 1])
            turn++;
    }
    return NULL;
}

static void start_server(server_t *self, const char *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    self->answers[0] = answer;
    self->file = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(self->file, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(self->file, 16), 0);
    getsockname(self->file, (struct sockaddr *)&address, &len);
    self->port = ntohs(address.sin_port);
    signal(SIGPIPE, SIG_IGN);
    pthread_create(&self->thread, NULL, run_server, self);
}

static void stop_server(server_t *self)
{
    shutdown(self->file, SHUT_RDWR);
    pthread_join(self->thread, NULL);
    close(self->file);
    SSL_CTX_free(self->tls);
}

/* A certificate of its own for name, which is written to file. */
static SSL_CTX *make_tls(const char *name, const char *file)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    X509 *cert = X509_new();
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    char alternative[128];
    X509_EXTENSION *extension;
    FILE *out = fopen(file, "w");

    snprintf(alternative, sizeof(alternative), "DNS:%s", name);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, alternative);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(cert, key, EVP_sha256());
    cr_assert_eq(SSL_CTX_use_certificate(tls, cert), 1);
    cr_assert_eq(SSL_CTX_use_PrivateKey(tls, key), 1);
    PEM_write_X509(out, cert);
    fclose(out);
    X509_free(cert);
    EVP_PKEY_free(key);
    return tls;
}

/* ---- a client ---- */

typedef struct client {
    zloop_t *loop;
    outbound_t *outbound;
    int answers;
    outbound_end_t end;
    unsigned status;
    char body[256], why[256], retry_after[32];
} client_t;

static client_t start_client(const outbound_settings_t *settings)
{
    client_t self = {.loop = zloop_new()};
    outbound_settings_t all = *settings;
    char *bad;

    zsys_init();
    all.calls = all.calls ? all.calls : 8;
    all.calls_of_one = all.calls_of_one ? all.calls_of_one : 4;
    cr_assert_eq(outbound_new(&self.outbound, self.loop, &all, &bad), 0);
    return self;
}

static void stop_client(client_t *self)
{
    outbound_destroy(&self->outbound);
    zloop_destroy(&self->loop);
}

static void on_answer(void *context, const outbound_answer_t *answer)
{
    client_t *self = context;
    const char *after =
        answer->end == OUTBOUND_ANSWERED ? outbound_header(answer, "retry-after") : NULL;

    self->answers++;
    self->end = answer->end;
    self->status = answer->status;
    snprintf(self->body, sizeof(self->body), "%.*s", (int)answer->body_bytes, answer->body);
    snprintf(self->why, sizeof(self->why), "%s", answer->why);
    snprintf(self->retry_after, sizeof(self->retry_after), "%s", after ? after : "");
}

static int end_when_answered(zloop_t *loop, int timer, void *context)
{
    client_t *self = context;

    (void)loop;
    (void)timer;
    return self->answers ? -1 : 0;
}

static void wait_for_answer(client_t *self)
{
    int timer = zloop_timer(self->loop, 1, 0, end_when_answered, self);

    zloop_start(self->loop);
    zloop_timer_end(self->loop, timer);
}

static int begin(client_t *self, outbound_request_t request, outbound_call_t **ret_call)
{
    request.owner = request.owner ? request.owner : "ac_1";
    request.timeout_ms = request.timeout_ms ? request.timeout_ms : 10000;
    request.max_bytes = request.max_bytes ? request.max_bytes : 1000;
    return outbound_send(self->outbound, &request, on_answer, self, ret_call);
}

static outbound_end_t ask(client_t *self, outbound_request_t request)
{
    self->answers = 0;
    cr_assert_eq(begin(self, request, NULL), 0, "%s", request.url);
    wait_for_answer(self);
    cr_assert_eq(self->answers, 1);
    return self->end;
}

static const char *url_of(const server_t *server, const char *host)
{
    static char url[128];

    snprintf(url, sizeof(url), "%s://%s:%u/a", server->tls ? "https" : "http", host, server->port);
    return url;
}

static const outbound_settings_t tame = {.allowed = "127.0.0.1"};

/* ---- what it is for ---- */

Test(outbound, brings_status_headers_and_body)
{
    server_t server = {0};
    client_t client = start_client(&tame);

    start_server(&server, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_ANSWERED);
    cr_assert_eq(client.status, 429);
    cr_assert_str_eq(client.body, "no");
    cr_assert_str_eq(client.retry_after, "7");
    cr_assert(strstr(server.request, "GET /a HTTP/1.1\r\n"));
    stop_client(&client);
    stop_server(&server);
}

Test(outbound, sends_method_headers_and_body_as_they_are)
{
    server_t server = {0};
    client_t client = start_client(&tame);
    const char *const headers[] = {"X-Key: secret", "X-Empty:", NULL};

    start_server(&server, "HTTP/1.1 204 Done\r\n\r\n");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .method = "PUT",
                                                   .headers = headers,
                                                   .body = "a\0b",
                                                   .body_bytes = 3}),
                 OUTBOUND_ANSWERED);
    cr_assert(strstr(server.request, "PUT /a HTTP/1.1\r\n"));
    cr_assert(strstr(server.request, "X-Key: secret\r\n"));
    cr_assert(strstr(server.request, "X-Empty:\r\n"));
    cr_assert(strstr(server.request, "Content-Length: 3\r\n"));
    cr_assert_not(strstr(server.request, "Content-Type"));
    cr_assert_not(strstr(server.request, "Expect"));
    stop_client(&client);
    stop_server(&server);
}

/* ---- to where ---- */

static void assert_denied(const outbound_settings_t *settings, const server_t *server,
                          const char *host, const char *why)
{
    client_t client = start_client(settings);

    cr_assert_eq(
        ask(&client, (outbound_request_t){.url = url_of(server, host), .may_be_plain = true}),
        OUTBOUND_DENIED, "%s: %s %s", host, outbound_end_name(client.end), client.why);
    cr_assert(strstr(client.why, why), "%s: %s", host, client.why);
    stop_client(&client);
}

Test(outbound, no_spelling_of_a_loopback_address_is_connected_to)
{
    static const char *const spellings[] = {"127.0.0.1",  "localhost", "0x7f000001",
                                            "2130706433", "127.1",     "0177.0.0.1",
                                            "127.9.9.9",  "[::1]",     "[::ffff:127.0.0.1]"};
    server_t server = {0};

    start_server(&server, "HTTP/1.1 200 OK\r\n\r\n");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
        assert_denied(&(outbound_settings_t){0}, &server, spellings[i], "loopback");
    cr_assert_eq(server.requests, 0);
    stop_server(&server);
}

Test(outbound, metadata_own_sockets_and_denied_networks_are_not_connected_to)
{
    server_t server = {0};
    char own[16];

    start_server(&server, "HTTP/1.1 200 OK\r\n\r\n");
    snprintf(own, sizeof(own), "%u", server.port);
    assert_denied(&(outbound_settings_t){0}, &server, "169.254.169.254", "metadata");
    assert_denied(&(outbound_settings_t){0}, &server, "[64:ff9b::169.254.169.254]", "metadata");
    assert_denied(&(outbound_settings_t){0}, &server, "0.0.0.0", "unspecified");
    assert_denied(&(outbound_settings_t){.own_sockets = own}, &server, "127.0.0.1",
                  "Postern's own");
    assert_denied(&(outbound_settings_t){.denied = "10.0.0.0/8"}, &server, "10.1.2.3", "operator");
    cr_assert_eq(server.requests, 0);
    stop_server(&server);
}

Test(outbound, a_setting_sends_connections_for_a_host_elsewhere_by_the_same_rules)
{
    server_t server = {0};
    char to[128];
    client_t client;

    start_server(&server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    snprintf(to, sizeof(to), "b.test:80:127.0.0.1:1, a.test:80:127.0.0.1:%u", server.port);
    client = start_client(&(outbound_settings_t){.allowed = "127.0.0.1", .connect_to = to});
    cr_assert_eq(ask(&client, (outbound_request_t){.url = "http://a.test/c", .may_be_plain = true}),
                 OUTBOUND_ANSWERED);
    cr_assert(strstr(server.request, "Host: a.test\r\n"));
    stop_client(&client);
    client = start_client(&(outbound_settings_t){.connect_to = to});
    cr_assert_eq(ask(&client, (outbound_request_t){.url = "http://a.test/c", .may_be_plain = true}),
                 OUTBOUND_DENIED);
    cr_assert_eq(server.requests, 1);
    stop_client(&client);
    stop_server(&server);
}

Test(outbound, where_connections_go_has_four_parts)
{
    static const char *const bad[] = {
        "a",        "a:80",     "a:80:b",   "a:80:b:", "a:80:b:80:",   "a:80:b:x",
        "a:b:c:80", ":80:b:80", "a:80::80", "a::b:80", "[::1:80:b:80", "a:80:b:80:c"};
    zloop_t *loop = zloop_new();
    outbound_t *outbound;
    char *item;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        outbound_settings_t settings = {.calls = 1, .calls_of_one = 1, .connect_to = bad[i]};

        cr_assert_eq(outbound_new(&outbound, loop, &settings, &item), -EINVAL, "%s", bad[i]);
        cr_assert_str_eq(item, bad[i]);
        free(item);
    }
    cr_assert_eq(outbound_new(&outbound, loop,
                              &(outbound_settings_t){.calls = 1,
                                                     .calls_of_one = 1,
                                                     .connect_to = "[::1]:80:[::2]:81 a:1:b:2"},
                              &item),
                 0);
    outbound_destroy(&outbound);
    zloop_destroy(&loop);
}

Test(outbound, a_redirect_is_judged_like_a_request)
{
    server_t first = {0}, second = {0};
    client_t client = start_client(&tame);
    char answer[256];

    start_server(&second, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.2:%u/\r\nContent-Length: 0\r\n\r\n",
             second.port);
    start_server(&first, answer);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&first, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .redirects = 3}),
                 OUTBOUND_DENIED);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&first, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_ANSWERED, "who follows none gets it");
    cr_assert_eq(client.status, 302);
    cr_assert_eq(second.requests, 0);
    stop_client(&client);
    stop_server(&first);
    stop_server(&second);
}

Test(outbound, redirects_end_and_stay_with_http)
{
    static const char *const bad[] = {"http://127.0.0.1:%u/a", "file:///etc/passwd",
                                      "gopher://127.0.0.1:%u/", "http://u:p@127.0.0.1:%u/"};
    char answer[256], location[128];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        server_t server = {0};
        client_t client = start_client(&tame);

        start_server(&server, NULL);
        snprintf(location, sizeof(location), bad[i], server.port);
        snprintf(answer, sizeof(answer),
                 "HTTP/1.1 302 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", location);
        server.answers[0] = answer;
        cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                       .may_be_plain = true,
                                                       .redirects = 3}),
                     OUTBOUND_REDIRECTS, "%s: %s %s", bad[i], outbound_end_name(client.end),
                     client.why);
        cr_assert_eq(server.requests, i ? 1 : 4);
        stop_client(&client);
        stop_server(&server);
    }
}

Test(outbound, a_proxy_of_the_environment_is_not_asked)
{
    server_t server = {0}, proxy = {0};
    client_t client;
    char text[64];

    start_server(&server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    start_server(&proxy, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\np");
    snprintf(text, sizeof(text), "http://127.0.0.1:%u", proxy.port);
    setenv("http_proxy", text, 1);
    setenv("all_proxy", text, 1);
    client = start_client(&tame);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_ANSWERED);
    cr_assert_str_eq(client.body, "x");
    cr_assert_eq(proxy.requests, 0);
    stop_client(&client);
    stop_server(&server);
    stop_server(&proxy);
}

/* ---- TLS ---- */

static outbound_end_t ask_tls(const char *name, const char *ca_file, const char *host)
{
    server_t server = {0};
    char file[] = "/tmp/postern-outbound-XXXXXX";
    outbound_settings_t settings = tame;
    client_t client;

    close(mkstemp(file));
    server.tls = make_tls(name, file);
    start_server(&server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    settings.ca_file = ca_file ? ca_file : file;
    client = start_client(&settings);
    ask(&client, (outbound_request_t){.url = url_of(&server, host)});
    stop_client(&client);
    stop_server(&server);
    unlink(file);
    return client.end;
}

Test(outbound, verifies_the_certificate_and_its_name)
{
    cr_assert_eq(ask_tls("localhost", NULL, "localhost"), OUTBOUND_ANSWERED);
    cr_assert_eq(ask_tls("example.com", NULL, "localhost"), OUTBOUND_TLS);
    cr_assert_eq(ask_tls("localhost", "", "localhost"), OUTBOUND_TLS,
                 "the system does not know who signed it");
}

/* ---- bounds ---- */

Test(outbound, an_answer_has_an_end)
{
    char flood[70000] = "HTTP/1.1 200 OK\r\n";
    server_t large = {0}, headers = {0}, broken = {0};
    client_t client = start_client(&tame);

    start_server(
        &large,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n");
    while (strlen(flood) < 66000)
        strcat(
            flood,
            "X-Header: "
            "01234567890123456789012345678901234567890123456789012345678901234567890123456789\r\n");
    strcat(flood, "\r\n");
    start_server(&headers, flood);
    start_server(&broken, "SSH-2.0-OpenSSH\r\n\r\n");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&large, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .max_bytes = 10}),
                 OUTBOUND_TOO_LARGE);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&large, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .max_bytes = 11}),
                 OUTBOUND_ANSWERED);
    cr_assert_str_eq(client.body, "12345678901");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&headers, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_TOO_LARGE);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&broken, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_BROKEN);
    stop_client(&client);
    stop_server(&large);
    stop_server(&headers);
    stop_server(&broken);
}

/* Of all these answers libcurl says that all is well. */
Test(outbound, what_was_cut_is_no_answer)
{
    server_t line = {0}, field = {0}, endless = {0};
    client_t client = start_client(&tame);

    start_server(&line, "HTTP/1.1 200 OK\r\n");
    start_server(&field, "HTTP/1.1 200 OK\r\nX-Half: ");
    start_server(&endless, "HTTP/1.1 200 OK\r\n\r\n{\"keys\":[");
    cr_assert_eq(
        ask(&client, (outbound_request_t){.url = url_of(&line, "127.0.0.1"), .may_be_plain = true}),
        OUTBOUND_BROKEN);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&field, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_BROKEN);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&endless, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_BROKEN, "it does not say where it ends");
    stop_client(&client);
    stop_server(&line);
    stop_server(&field);
    stop_server(&endless);
}

Test(outbound, an_answer_says_once_where_it_ends)
{
    static const struct {
        const char *head;
        outbound_end_t want;
    } cases[] = {
        {"Content-Length: 3\r\n\r\nabc", OUTBOUND_ANSWERED},
        {"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", OUTBOUND_ANSWERED},
        {"Transfer-Encoding: identity\r\n\r\ncut sho", OUTBOUND_BROKEN},
        {"Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", OUTBOUND_BROKEN},
        {"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", OUTBOUND_BROKEN},
        {"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", OUTBOUND_BROKEN},
        {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
         OUTBOUND_BROKEN},
    };
    client_t client = start_client(&tame);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        server_t server = {0};
        char text[200];

        snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n%s", cases[i].head);
        start_server(&server, text);
        cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                       .may_be_plain = true}),
                     cases[i].want, "%s", cases[i].head);
        stop_server(&server);
    }
    stop_client(&client);
}

/* What libcurl reads and throws away has no more room than a body. */
Test(outbound, what_nobody_gets_has_an_end_too)
{
    server_t redirect = {.floods = true}, chunk = {.floods = true}, line = {.floods = true};
    client_t client = start_client(&tame);

    start_server(&redirect,
                 "HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 999999999999\r\n\r\n");
    start_server(&chunk, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;");
    start_server(&line, "HTTP/1.1 200 OK\r\nX-Long: ");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&redirect, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .redirects = 3}),
                 OUTBOUND_TOO_LARGE, "%s %s", outbound_end_name(client.end), client.why);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&chunk, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_TOO_LARGE, "%s %s", outbound_end_name(client.end), client.why);
    cr_assert_eq(
        ask(&client, (outbound_request_t){.url = url_of(&line, "127.0.0.1"), .may_be_plain = true}),
        OUTBOUND_TOO_LARGE, "%s %s", outbound_end_name(client.end), client.why);
    stop_client(&client);
    stop_server(&redirect);
    stop_server(&chunk);
    stop_server(&line);
}

Test(outbound, who_does_not_answer_is_not_waited_for)
{
    server_t server = {.stays_silent = true};
    client_t client = start_client(&tame);

    start_server(&server, "");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .timeout_ms = 50}),
                 OUTBOUND_TIMEOUT);
    stop_client(&client);
    stop_server(&server);
}

Test(outbound, whoever_is_not_answered_knows_whether_there_was_a_connection)
{
    server_t server = {.stays_silent = true};
    client_t client = start_client(&tame);
    bool reached = false;
    char url[64];

    start_server(&server, "");
    snprintf(url, sizeof(url), "https://127.0.0.1:%u/", server.port);
    cr_assert_eq(
        ask(&client, (outbound_request_t){.url = url, .timeout_ms = 50, .reached = &reached}),
        OUTBOUND_TIMEOUT);
    cr_assert_not(reached, "it says nothing of TLS");
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true,
                                                   .timeout_ms = 2000,
                                                   .reached = &reached}),
                 OUTBOUND_TIMEOUT);
    cr_assert(reached);
    stop_client(&client);
    stop_server(&server);
}

Test(outbound, an_owner_has_a_share)
{
    server_t server = {.stays_silent = true};
    client_t client =
        start_client(&(outbound_settings_t){.allowed = "127.0.0.1", .calls = 3, .calls_of_one = 2});
    outbound_request_t request;
    outbound_call_t *call;

    start_server(&server, "");
    request = (outbound_request_t){.url = url_of(&server, "127.0.0.1"), .may_be_plain = true};
    cr_assert_eq(begin(&client, request, &call), 0);
    cr_assert_eq(begin(&client, request, NULL), 0);
    cr_assert_eq(begin(&client, request, NULL), -EDQUOT);
    request.owner = "ac_2";
    cr_assert_eq(begin(&client, request, NULL), 0);
    cr_assert_eq(begin(&client, request, NULL), -EAGAIN);
    outbound_cancel(&call);
    cr_assert_null(call);
    cr_assert_eq(begin(&client, request, NULL), 0);
    cr_assert_eq(client.answers, 0, "who cancels hears nothing");
    stop_client(&client);
    cr_assert_eq(client.answers, 3, "the others hear that it stops");
    cr_assert_eq(client.end, OUTBOUND_STOPPED);
    stop_server(&server);
}

static void ask_again(void *context, const outbound_answer_t *answer)
{
    client_t *self = context;

    on_answer(self, answer);
    cr_assert_neq(begin(self, (outbound_request_t){.url = "https://192.0.2.1/"}, NULL), 0);
}

Test(outbound, who_is_told_that_it_stops_begins_nothing_new)
{
    server_t server = {.stays_silent = true};
    client_t client = start_client(&tame);
    outbound_request_t request = {.owner = "ac_1", .may_be_plain = true, .timeout_ms = 10000};

    start_server(&server, "");
    request.url = url_of(&server, "127.0.0.1");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(outbound_send(client.outbound, &request, ask_again, &client, NULL), 0);
    stop_client(&client);
    cr_assert_eq(client.answers, 3);
    stop_server(&server);
}

/* ---- what a tenant may write ---- */

Test(outbound, refuses_what_is_no_request)
{
    static const char *const splits[] = {"A: b\r\nC: d", NULL},
                             *const ends[] = {"Transfer-Encoding: chunked", NULL},
                             *const nameless[] = {": b", NULL}, *const hosts[] = {"HOST: x", NULL},
                             *const plain[] = {"A: b", NULL};
    const outbound_request_t bad[] = {
        {.url = "http://example.com/"},
        {.url = "file:///etc/passwd", .may_be_plain = true},
        {.url = "https://u:p@example.com/"},
        {.url = "example.com"},
        {.url = ""},
        {.url = NULL},
        {.url = "https://example.com/\r\nX: y"},
        {.url = "https://example.com/", .method = "GET / HTTP/1.1\r\nX:"},
        {.url = "https://example.com/", .method = ""},
        {.url = "https://example.com/", .headers = splits},
        {.url = "https://example.com/", .headers = ends},
        {.url = "https://example.com/", .headers = nameless},
        {.url = "https://example.com/", .headers = hosts},
        {.url = "https://example.com/", .headers = plain, .redirects = 1},
        {.url = "https://example.com/", .method = "POST", .redirects = 1},
        {.url = "https://example.com/", .body = "x", .body_bytes = 1},
        {.url = "https://example.com/", .timeout_ms = 60001},
        {.url = "https://example.com/", .max_bytes = (16 << 20) + 1},
    };
    client_t client = start_client(&tame);

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_assert_eq(begin(&client, bad[i], NULL), -EINVAL, "%zu", i);
    stop_client(&client);
}

/* ---- a resolver that does not answer ---- */

static int gate[2] = {-1, -1};

/* The system's, but for one name, which waits until the test lets it go. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
            RTLD_NEXT, "getaddrinfo");
    char byte;

    if (name && !strcmp(name, "silent.test") && !(hints->ai_flags & AI_NUMERICHOST)) {
        (void)!read(gate[0], &byte, 1);
        return EAI_AGAIN;
    }
    return real(name, service, hints, list);
}

Test(outbound, a_resolver_that_does_not_answer_holds_up_nobody)
{
    server_t server = {0};
    client_t client = start_client(&tame);
    outbound_call_t *call;

    cr_assert_eq(pipe(gate), 0);
    start_server(&server, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    cr_assert_eq(
        ask(&client, (outbound_request_t){.url = "https://silent.test/", .timeout_ms = 50}),
        OUTBOUND_TIMEOUT);
    cr_assert_eq(begin(&client, (outbound_request_t){.url = "https://silent.test/"}, &call), 0);
    cr_assert_eq(ask(&client, (outbound_request_t){.url = url_of(&server, "127.0.0.1"),
                                                   .may_be_plain = true}),
                 OUTBOUND_ANSWERED);
    outbound_cancel(&call);
    for (int i = 0; i < 2; i++) /* with the two whose threads are in the resolver it has its four */
        cr_assert_eq(begin(&client, (outbound_request_t){.url = "https://silent.test/"}, NULL), 0);
    cr_assert_eq(begin(&client, (outbound_request_t){.url = "https://silent.test/"}, NULL),
                 -EDQUOT);
    stop_client(&client); /* none of this came back if somebody waited for the resolver */
    (void)!write(gate[1], "xxxx", 4);
    stop_server(&server);
}
