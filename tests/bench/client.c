/* A client of the benches, for what wrk and h2load cannot do, at as little cost as can be. On each
 * of its connections (TLS, server name bench.localhost) one thing is asked for at a time.
 *
 * client messages PORT CONNECTIONS MILLISECONDS BYTES
 *     WebSocket messages of so many bytes, each answered by one as long (upstream.c). Prints
 *     "RESULT <messages> <microseconds> <p50 us> <p99 us> <errors>".
 *
 * client turns PORT CONNECTIONS MILLISECONDS PIDS PATH...
 *     GETs of the paths in turns of 100 ms, at least one turn of each: two routes of one edge are
 *     told apart like that, within one process and a moment, where two runs differ by more than the
 *     routes do. A turn ends when all that was asked in it is answered; only then is the time read
 *     that the processes PIDS (with commas, threads included) had of the CPUs. Each other pass over
 *     the paths goes backward. Prints for each turn
 *     "TURN <path, from 0> <requests> <microseconds> <CPU microseconds> <errors>", and at the end
 *     "LATENCY <path> <p50 us> <p99 us>". A PATH may have a header: "/path,Name: value". Where the value
 *     has an @ behind it comes the name of a file, "/path,Cookie: name=@file": each request has one of
 *     its lines there, which are all as long, at random. Answers need a Content-Length.
 *
 * client each PORT CONNECTIONS PATH
 *     The path once for each line of its file, in their order. Prints a RESULT as above. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "awake.h"

enum { PATHS_MAX = 16, PEERS_MAX = 1024, READ = 256 << 10, TURN_US = 100000 };
enum { SAMPLES_MAX = 4 << 20 };
#define EACH_US_MAX (3600ull * 1000000)

/* What is asked for: the bytes to send, and how long each answer took. At value_at in the bytes is
 * a line of a file, another one for each request. */
typedef struct {
    char *bytes;
    size_t len;
    const char *lines;
    size_t line_count, line_len, value_at;
    size_t next; /* line, where they go in their order */
    bool in_order;
    uint32_t *took_us;
    size_t answered;
} question_t;

typedef struct {
    SSL *ssl;
    uint64_t since_us;
    size_t sent, left; /* of the question; of its answer, once the head is there */
    bool asking, has_head, watched_for_write, to_close;
} peer_t;

static struct {
    int port, epoll;
    bool messages;
    size_t message_len, peer_count, asking, errors;
    uint64_t until_us;
    question_t *question;
    SSL_CTX *tls;
    peer_t peers[PEERS_MAX];
} self;

static char in[READ + 1];

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "bench client: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

/* ---- connections ---- */

static int connect_tcp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)self.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
        die("cannot connect");
    return fd;
}

static void become_websocket(SSL *ssl)
{
    static const char ask[] = "GET /ws HTTP/1.1\r\nHost: bench.localhost\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    size_t len = 0;
    int n = SSL_write(ssl, ask, sizeof(ask) - 1);

    in[0] = '\0';
    while (n > 0 && !strstr(in, "\r\n\r\n") && len < READ) {
        n = SSL_read(ssl, in + len, (int)(READ - len));
        len += n > 0 ? (size_t)n : 0;
        in[len] = '\0';
    }
    if (n <= 0 || strncmp(in, "HTTP/1.1 101", 12))
        die("no WebSocket");
}

/* Blocks: there are few of them, and nothing is measured of their making. */
static void peer_connect(peer_t *peer)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    int fd = connect_tcp();

    memset(peer, 0, sizeof(*peer));
    peer->ssl = SSL_new(self.tls);
    if (!peer->ssl || !SSL_set_fd(peer->ssl, fd)
        || !SSL_set_tlsext_host_name(peer->ssl, "bench.localhost") || SSL_connect(peer->ssl) != 1)
        die("no TLS");
    if (self.messages)
        become_websocket(peer->ssl);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event);
}

static void peer_reconnect(peer_t *peer)
{
    close(SSL_get_fd(peer->ssl));
    SSL_free(peer->ssl);
    peer_connect(peer);
}

static void watch(peer_t *peer, bool write)
{
    struct epoll_event event = {.events = write ? EPOLLOUT : EPOLLIN, .data.ptr = peer};

    if (write != peer->watched_for_write)
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, SSL_get_fd(peer->ssl), &event);
    peer->watched_for_write = write;
}

/* ---- questions and answers ---- */

/* Sends as much of the question as the connection takes. false: it broke. */
static bool peer_send(peer_t *peer)
{
    const question_t *question = self.question;

    while (peer->sent < question->len) {
        size_t n;

        if (SSL_write_ex(peer->ssl, question->bytes + peer->sent, question->len - peer->sent, &n)
            != 1) {
            if (SSL_get_error(peer->ssl, 0) != SSL_ERROR_WANT_WRITE)
                return false;
            watch(peer, true);
            return true;
        }
        peer->sent += n;
    }
    watch(peer, false);
    return true;
}

/* What is left of a request that was not taken whole is in its TLS record by now. */
static void choose_line(question_t *question)
{
    static uint64_t random = 88172645463325252;
    size_t line = question->next;

    if (question->in_order) {
        question->next++;
    } else {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* xorshift64 */
        line = (size_t)((unsigned __int128)random * question->line_count >> 64);
    }
    memcpy(question->bytes + question->value_at, question->lines + line * (question->line_len + 1),
           question->line_len);
}

static bool peer_ask(peer_t *peer)
{
    if (self.question->lines)
        choose_line(self.question);
    peer->sent = 0;
    peer->has_head = false;
    peer->since_us = now_us();
    if (!peer->asking)
        self.asking++;
    peer->asking = true;
    return peer_send(peer);
}

/* Of an answer's first bytes: how long is what comes behind its head? Heads come whole. */
static bool read_head(peer_t *peer, size_t n, size_t *head)
{
    const char *end, *length;

    if (self.messages) {
        *head = self.message_len < 126 ? 2 : self.message_len < 65536 ? 4 : 10;
        peer->left = self.message_len;
        return n >= *head && in[0] == (char)0x82;
    }
    in[n] = '\0';
    end = strstr(in, "\r\n\r\n");
    length = strcasestr(in, "\r\ncontent-length:");
    if (!end || !length || strncmp(in, "HTTP/1.1 200", 12))
        return false;
    *head = (size_t)(end + 4 - in);
    peer->left = strtoul(length + 17, NULL, 10);
    length = strcasestr(in, "\r\nconnection: close");
    peer->to_close = length && length < end;
    return true;
}

static void note_answer(peer_t *peer, uint64_t now)
{
    question_t *question = self.question;

    if (question->answered < SAMPLES_MAX)
        question->took_us[question->answered] = (uint32_t)(now - peer->since_us);
    question->answered++;
    peer->asking = false;
    self.asking--;
}

static bool is_asked_through(void)
{
    return self.question->in_order && self.question->next == self.question->line_count;
}

/* Reads what is there. false: the connection broke. */
static bool peer_read(peer_t *peer)
{
    size_t n, head;

    while (SSL_read_ex(peer->ssl, in, READ, &n) == 1) {
        head = 0;
        if (!peer->asking || (!peer->has_head && !read_head(peer, n, &head)))
            return false;
        peer->has_head = true;
        n -= head;
        peer->left -= n < peer->left ? n : peer->left;
        if (peer->left)
            continue;
        note_answer(peer, now_us());
        if (peer->to_close)
            peer_reconnect(peer);
        if (now_us() >= self.until_us || is_asked_through())
            return true;
        if (!peer_ask(peer))
            return false;
    }
    return SSL_get_error(peer->ssl, 0) == SSL_ERROR_WANT_READ;
}

static void peer_serve(peer_t *peer, uint32_t events)
{
    if (events & EPOLLOUT ? peer_send(peer) : peer_read(peer))
        return;
    if (peer->asking) {
        self.errors++;
        self.asking--;
    }
    peer_reconnect(peer);
}

/* Asks one question on all connections, until the time has come and all answers, too. */
static void ask_all(question_t *question, uint64_t us)
{
    struct epoll_event events[256];

    self.question = question;
    self.until_us = now_us() + us;
    for (size_t i = 0; i < self.peer_count && !is_asked_through(); i++)
        if (!peer_ask(&self.peers[i]))
            peer_serve(&self.peers[i], EPOLLIN);
    while (self.asking) {
        int n = awake_wait(self.epoll, events, 256, 5000);

        if (n == 0)
            die("no answer in 5 s");
        for (int i = 0; i < n; i++)
            peer_serve(events[i].data.ptr, events[i].events);
    }
}

/* ---- what is asked ---- */

static void question_init(question_t *question)
{
    question->took_us = calloc(SAMPLES_MAX, sizeof(uint32_t));
    if (!question->bytes || !question->took_us)
        die("no memory");
}

/* The lines of the file that the header's value ends with. */
static void question_of_lines(question_t *question, const char *file)
{
    int fd = open(file, O_RDONLY);
    struct stat status;
    const char *end;

    if (fd < 0 || fstat(fd, &status) || !status.st_size)
        die("no such file of values");
    question->lines =
        mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    end = question->lines == MAP_FAILED ? NULL
                                        : memchr(question->lines, '\n', (size_t)status.st_size);
    if (!end)
        die("no line in the file of values");
    question->line_len = (size_t)(end - question->lines);
    question->line_count = (size_t)status.st_size / (question->line_len + 1);
}

/* "Cookie: name=@file" -> "Cookie: name=" and room for a line; NULL stays so. The caller's. */
static char *header_of(question_t *question, const char *header)
{
    const char *file = header ? strchr(header, '@') : NULL;
    char *text = NULL;
    int len;

    if (file)
        question_of_lines(question, file + 1);
    len = asprintf(&text, "%.*s%*s%s", header ? (int)strcspn(header, "@") : 0, header ? header : "",
                   (int)question->line_len, "", header ? "\r\n" : "");
    if (len < 0)
        die("no memory");
    return text;
}

static void question_of_path(question_t *question, const char *path)
{
    const char *comma = strchr(path, ',');
    char *header = header_of(question, comma ? comma + 1 : NULL);
    int len =
        asprintf(&question->bytes,
                 "GET %.*s HTTP/1.1\r\nHost: bench.localhost\r\n"
                 "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n"
                 "Accept: text/html,application/xhtml+xml\r\n"
                 "Accept-Language: en-US,en;q=0.5\r\n"
                 "Referer: https://example.test/somewhere\r\n%s\r\n",
                 (int)strcspn(path, ","), path, header);

    free(header);
    question->len = len < 0 ? 0 : (size_t)len;
    question->value_at = question->len - 4 - question->line_len;
    question_init(question);
}

/* One binary message with a mask of zeros: RFC 6455 5.2. */
static void question_of_message(question_t *question, size_t len)
{
    size_t size = len < 126 ? 2 : len < 65536 ? 4 : 10;
    char *p = calloc(1, size + 4 + len);

    question->bytes = p;
    question->len = size + 4 + len;
    question_init(question);
    p[0] = (char)0x82;
    p[1] = (char)(0x80 | (size == 2 ? len : size == 4 ? 126 : 127));
    for (size_t i = 2; i < size; i++)
        p[i] = (char)(len >> 8 * (size - 1 - i));
    memset(p + size + 4, 'x', len);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* p50 and p99 in us */
static void latencies(question_t *question, uint32_t *p50, uint32_t *p99)
{
    size_t n = question->answered < SAMPLES_MAX ? question->answered : SAMPLES_MAX;

    qsort(question->took_us, n, sizeof(uint32_t), compare);
    *p50 = n ? question->took_us[n / 2] : 0;
    *p99 = n ? question->took_us[n * 99 / 100] : 0;
}

/* ---- time that processes had of the CPUs ---- */

static uint64_t ns_of_thread(int tasks, const char *tid)
{
    char path[300], text[64] = "";
    ssize_t n = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/schedstat", tid);
    fd = openat(tasks, path, O_RDONLY);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return strtoull(text, NULL, 10);
}

static uint64_t cpu_us(const char *pids)
{
    char path[64];
    struct dirent *entry;
    uint64_t ns = 0;

    for (const char *p = pids; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        DIR *tasks;

        snprintf(path, sizeof(path), "/proc/%d/task", atoi(p));
        tasks = opendir(path);
        while (tasks && (entry = readdir(tasks)))
            ns += entry->d_name[0] == '.' ? 0 : ns_of_thread(dirfd(tasks), entry->d_name);
        if (tasks)
            closedir(tasks);
    }
    return ns / 1000;
}

/* ---- what to do ---- */

static void do_question(question_t *question, uint64_t us)
{
    uint64_t since = now_us();
    uint32_t p50, p99;

    ask_all(question, us);
    since = now_us() - since;
    latencies(question, &p50, &p99);
    printf("RESULT %zu %llu %u %u %zu\n", question->answered, (unsigned long long)since, p50, p99,
           self.errors);
}

static void do_messages(uint64_t us, size_t len)
{
    question_t question = {0};

    self.message_len = len;
    question_of_message(&question, len);
    do_question(&question, us);
}

static void do_each(const char *path)
{
    question_t question = {.in_order = true};

    question_of_path(&question, path);
    if (!question.lines)
        die("no file of values in the path");
    do_question(&question, EACH_US_MAX);
}

static void take_turn(question_t *question, int path, const char *pids)
{
    size_t answered = question->answered, errors = self.errors;
    uint64_t cpu = cpu_us(pids), since = now_us();

    ask_all(question, TURN_US);
    since = now_us() - since;
    printf("TURN %d %zu %llu %llu %zu\n", path, question->answered - answered,
           (unsigned long long)since, (unsigned long long)(cpu_us(pids) - cpu),
           self.errors - errors);
}

static void do_turns(uint64_t us, const char *pids, int count, char **paths)
{
    static question_t questions[PATHS_MAX];
    uint64_t until;
    uint32_t p50, p99;

    for (int i = 0; i < count; i++)
        question_of_path(&questions[i], paths[i]);
    for (int i = 0; i < count; i++) /* connections to the upstream are made, and caches filled */
        ask_all(&questions[i], TURN_US / 4);
    until = now_us() + us;
    for (int pass = 0; pass == 0 || now_us() < until; pass++)
        for (int i = 0; i < count; i++) {
            int path = pass % 2 ? count - 1 - i : i;

            take_turn(&questions[path], path, pids);
        }
    for (int i = 0; i < count; i++) {
        latencies(&questions[i], &p50, &p99);
        printf("LATENCY %d %u %u\n", i, p50, p99);
    }
}

int main(int argc, char **argv)
{
    bool each = argc == 5 && !strcmp(argv[1], "each");

    self.messages = argc == 6 && !strcmp(argv[1], "messages");
    if (!self.messages && !each
        && (argc < 7 || argc > 6 + PATHS_MAX || strcmp(argv[1], "turns")))
        die("client messages PORT CONNECTIONS MILLISECONDS BYTES, or\n"
            "client turns PORT CONNECTIONS MILLISECONDS PIDS PATH..., or\n"
            "client each PORT CONNECTIONS PATH");
    self.port = atoi(argv[2]);
    self.peer_count = strtoul(argv[3], NULL, 10);
    if (!self.peer_count || self.peer_count > PEERS_MAX)
        die("connections: 1 to 1024");
    self.epoll = epoll_create1(0);
    awake_start();
    self.tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(self.tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    for (size_t i = 0; i < self.peer_count; i++)
        peer_connect(&self.peers[i]);
    if (self.messages)
        do_messages(strtoull(argv[4], NULL, 10) * 1000, strtoul(argv[5], NULL, 10));
    else if (each)
        do_each(argv[4]);
    else
        do_turns(strtoull(argv[4], NULL, 10) * 1000, argv[5], argc - 6, argv + 6);
    return 0;
}
