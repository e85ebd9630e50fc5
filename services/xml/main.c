/* postern-xml: reads SAML messages for postern-saml, which starts it with a socket for its standard
 * input. The only program that has libxml2 and libxmlsec1 in it: with all of both in memory it
 * waits for messages, and forks a child for each, which reads that one in a sandbox. It reads none
 * itself, has no key and no network, and ends when its socket does. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/codec/reading.h"
#include "services/xml/answer.h"
#include "services/xml/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

enum { CONTROL = STDIN_FILENO, CHILD_MS = 2000 };

typedef struct child {
    pid_t pid; /* 0: a free place */
    int64_t until_ms;
} child_t;

static child_t children[READING_CHILDREN_MAX];

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the child ---- */

/* Both copies are of one message, which is bounded, and end with the process. */
static bool read_question(char *out, size_t size, size_t *ret_len)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read(STDIN_FILENO, out + len, size - len)) > 0)
        len += (size_t)n;
    *ret_len = len;
    return n == 0 && len < size;
}

static void write_answer(const char *bytes, size_t len)
{
    ssize_t n;

    for (; len && (n = write(STDOUT_FILENO, bytes, len)) > 0; len -= (size_t)n)
        bytes += n;
}

static void child_run(int question, int answer)
{
    msgpack_sbuffer out;
    char *bytes;
    size_t len;

    if (dup2(question, STDIN_FILENO) < 0 || dup2(answer, STDOUT_FILENO) < 0 || sandbox_enter())
        _exit(2);
    bytes = malloc(READING_QUESTION_MAX + 1);
    msgpack_sbuffer_init(&out);
    if (!bytes || !read_question(bytes, READING_QUESTION_MAX + 1, &len)
        || answer_question(bytes, len, &out))
        _exit(3);
    write_answer(out.data, out.size);
    _exit(0);
}

/* ---- the parent of children ---- */

static child_t *free_place(void)
{
    for (size_t i = 0; i < LEN(children); i++)
        if (!children[i].pid)
            return &children[i];
    return NULL;
}

static void start_child(int question, int answer)
{
    child_t *place = free_place();
    pid_t pid;

    if (!place) {
        log_error("more messages are under way than there are places");
        return;
    }
    pid = fork();
    if (pid == 0)
        child_run(question, answer);
    if (pid < 0)
        log_error("cannot fork: %s", strerror(errno));
    else
        *place = (child_t){pid, now_ms() + CHILD_MS};
}

static void log_end(pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        log_error("the child %d, which read a message, ended by signal %d (%s)", (int)pid,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        log_error("the child %d, which read a message, ended with status %d", (int)pid,
                  WEXITSTATUS(status));
}

static void reap_children(void)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        log_end(pid, status);
        for (size_t i = 0; i < LEN(children); i++)
            if (children[i].pid == pid)
                children[i].pid = 0;
    }
}

/* Kill children whose time is over. Returns how long the next one has, or -1 without any. */
static int kill_late(void)
{
    int64_t now = now_ms(), next = -1;

    for (size_t i = 0; i < LEN(children); i++) {
        if (!children[i].pid)
            continue;
        if (children[i].until_ms <= now) {
            kill(children[i].pid, SIGKILL); /* not reaped yet, so it is no other process */
            children[i].until_ms = now + CHILD_MS;
        }
        if (next < 0 || children[i].until_ms - now < next)
            next = children[i].until_ms - now;
    }
    return (int)next;
}

/* Take a packet with two files: where the question is, and where the answer goes. False: postern-
 * saml has gone. */
static bool take_packet(void)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(CONTROL, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *head;
    int files[2];

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    head = n ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(files)))
        return false;
    memcpy(files, CMSG_DATA(head), sizeof(files));
    start_child(files[0], files[1]);
    close(files[0]);
    close(files[1]);
    return true;
}

static void serve_messages(int signals)
{
    struct pollfd polled[] = {{.fd = CONTROL, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;

    for (;;) {
        if (poll(polled, LEN(polled), kill_late()) < 0 && errno != EINTR)
            return;
        if (polled[1].revents && read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
            reap_children();
        if (polled[0].revents && !take_packet())
            return;
    }
}

static void end_children(void)
{
    for (size_t i = 0; i < LEN(children); i++)
        if (children[i].pid)
            kill(children[i].pid, SIGKILL);
}

int main(int argc, char **argv)
{
    sigset_t mask;
    int signals, r;

    log_init("postern-xml");
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        puts("postern-xml: reads SAML messages, each in a sandboxed process of its own.\n"
             "postern-saml starts it, on a socket that is its standard input; it has no settings.");
        return EXIT_SUCCESS;
    }
    if (argc > 1 || close_range(3, ~0U, 0)) {
        log_error("this program has no settings: postern-saml starts it");
        return EXIT_FAILURE;
    }
    memory_guard_json();
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    r = signals < 0 ? fault(-errno, "make a signalfd") : answer_start();
    if (!r)
        r = sandbox_measure();
    if (r) {
        log_error("cannot start: %s", fault_text());
        return EXIT_FAILURE;
    }
    serve_messages(signals);
    end_children();
    return EXIT_SUCCESS;
}
