#include "services/saml/program.h"
#include "common/base/err.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The variables that sanitizers read; the list ends with NULL. */
static void choose_environment(char *out[3])
{
    int n = 0;

    for (char **one = environ; *one && n < 2; one++)
        if (!strncmp(*one, "ASAN_OPTIONS=", 13) || !strncmp(*one, "UBSAN_OPTIONS=", 14))
            out[n++] = *one;
    out[n] = NULL;
}

/* posix_spawn, because this process has threads by the time that the program is started again. */
static int spawn(pid_t *ret_pid, const char *path, int input)
{
    char *const argv[] = {(char *)path, NULL};
    char *chosen[3];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    choose_environment(chosen);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn(ret_pid, path, &actions, &attributes, argv, chosen);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int program_start(program_t *self, const char *path)
{
    int ends[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return fault(-errno, "make a socket for postern-xml");
    r = spawn(&self->pid, path, ends[1]);
    close(ends[1]);
    if (r) {
        close(ends[0]);
        self->pid = 0;
        return fault(r, path);
    }
    self->socket = ends[0];
    return 0;
}

void program_end(program_t *self)
{
    if (!self->pid)
        return;
    close(self->socket);
    kill(self->pid, SIGKILL);
    while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *self = PROGRAM_NONE;
}

bool program_runs(const program_t *self)
{
    return self->pid > 0;
}

int program_pass(program_t *self, int one, int other)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    const int files[2] = {one, other};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(files));
    memcpy(CMSG_DATA(head), files, sizeof(files));
    if (sendmsg(self->socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return fault(-errno, "pass files to postern-xml");
    return 0;
}
