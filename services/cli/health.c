#include "services/cli/health.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"

#include <czmq.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_MAX = 4096, PATIENCE_MS = 2000 };

/* An edge's /readyz lists problems after "ready": a worker without its helper serves, but gets no
 * changes. */
#define READY     "ready\n"
#define NO_HELPER "has no helper that answers"

bool health_item_read(health_item_t *self, const char *text)
{
    const char *equals = strchr(text, '='), *address = equals ? equals + 1 : text;
    size_t name = equals ? (size_t)(equals - text) : 0;

    memset(self, 0, sizeof(*self));
    if (name >= sizeof(self->name) || strlen(address) >= sizeof(self->address)
        || !strchr(address, ':') || *address == ':' || (equals && !name))
        return false;
    memcpy(self->name, text, name);
    memcpy(self->address, address, strlen(address) + 1);
    return true;
}

/* Append text as one line, without the ends of lines at its own end. */
static void append_line(char *out, size_t size, const char *text)
{
    size_t len = strlen(text), at = strlen(out);

    while (len && strchr("\r\n", text[len - 1]))
        len--;
    for (size_t i = 0; i < len && at + 2 < size; i++) {
        if (text[i] == '\r')
            continue;
        if (text[i] == '\n')
            out[at++] = ';';
        out[at++] = text[i] == '\n' ? ' ' : text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    out[at] = '\0';
}

/* Append lines as they are, but for bytes that a terminal would obey. */
static void append_lines(char *out, size_t size, const char *text)
{
    size_t at = strlen(out);

    for (; *text && at + 1 < size; text++)
        out[at++] = *text == '\n' || (*text >= ' ' && *text <= '~') ? *text : '?';
    while (at && out[at - 1] == '\n')
        at--;
    out[at] = '\0';
}

bool health_read_answer(const char *answer, char *out, size_t size)
{
    const char *body = strstr(answer, "\r\n\r\n");
    char first[128];

    body = body ? body + 4 : "";
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(answer, "\r\n"), answer);
    if (!strncmp(answer, "HTTP/1.", 7) && !strncmp(answer + 8, " 200 ", 5)) {
        snprintf(out, size, "ready");
        if (!strncmp(body, READY, strlen(READY)) && body[strlen(READY)]) {
            snprintf(out, size, READY);
            append_lines(out, size, body + strlen(READY));
        }
        return !strstr(body, NO_HELPER);
    }
    snprintf(out, size, "not ready: ");
    append_line(out, size, !*answer ? "no answer" : body[strspn(body, "\r\n")] ? body : first);
    return false;
}

/* Connect to host:port, within PATIENCE_MS for each of the host's addresses. The socket, which the
 * caller closes | -1: *ret_why is the reason. */
static int dial(const char *address, const char **ret_why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    const char *colon = strrchr(address, ':');
    struct addrinfo *list = NULL;
    char host[256];
    int fd = -1, r;

    snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (*host == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        memmove(host, host + 1, strlen(host));
    }
    r = getaddrinfo(host, colon + 1, &hints, &list);
    *ret_why = r ? gai_strerror(r) : NULL;
    for (const struct addrinfo *one = list; one && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (connect(fd, one->ai_addr, one->ai_addrlen)) {
            *ret_why = errno == EINPROGRESS ? "no answer" : strerror(errno);
            close(fd);
            fd = -1;
        }
    }
    if (list)
        freeaddrinfo(list);
    return fd;
}

/* Send the request and read the answer until the other end closes the connection, or until there
 * is no more room or time. */
static void exchange(int fd, const char *address, char answer[ANSWER_MAX])
{
    int64_t deadline = zclock_mono() + PATIENCE_MS;
    char request[512];
    size_t used = 0;
    ssize_t n = 1;

    snprintf(request, sizeof(request), "GET /readyz HTTP/1.0\r\nHost: %s\r\n\r\n", address);
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request))
        while (n > 0 && used + 1 < ANSWER_MAX && zclock_mono() < deadline) {
            n = recv(fd, answer + used, ANSWER_MAX - 1 - used, 0);
            used += n > 0 ? (size_t)n : 0;
        }
    answer[used] = '\0';
}

static bool ask_one(const char *text)
{
    char answer[ANSWER_MAX] = "", said[ANSWER_MAX];
    health_item_t item;
    const char *why;
    bool ok = false;
    int fd;

    if (!health_item_read(&item, text)) {
        printf("%s not ready: this item of POSTERN_HEALTH_URLS is neither host:port nor "
               "name=host:port\n",
               text);
        return false;
    }
    fd = dial(item.address, &why);
    if (fd < 0) {
        snprintf(said, sizeof(said), "not ready: %s", why);
    } else {
        exchange(fd, item.address, answer);
        ok = health_read_answer(answer, said, sizeof(said));
        close(fd);
    }
    printf("%s%s%s %s\n", item.name, *item.name ? " " : "", item.address, said);
    return ok;
}

int health_run(const char *items)
{
    _cleanup_(free_mem) char *list = memory_copy(items, "addresses");
    char *save = NULL;
    int r = EXIT_SUCCESS;

    for (char *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save))
        if (!ask_one(one))
            r = EXIT_FAILURE;
    return r;
}
