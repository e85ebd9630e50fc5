/* The program runs while its socket is open. One that has ended is started again with the next
 * question, but not more often than AGAIN_S says. One that has been asked and answers nothing for
 * HUNG_MS hangs, and is ended: a question takes it less, and its asker waits for longer
 * (SIGNERS_WAIT_MS). */
#include "services/edge/control/edge_helper_signers.h"
#include "common/codec/signer.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/worker/edge_conf.h"

#include <spawn.h>
#include <sys/wait.h>

enum { AGAIN_S = 1, HUNG_MS = 12000, SETTING_MAX = 8192, SETTINGS = 5 };

static int       program = -1;   /* the link to it */
static pid_t     program_pid;
static time_t    started;
static size_t    unanswered;    /* questions of it */
static uint64_t  answered_ms;   /* when it answered last, or was asked while it had no question */


static ngx_int_t
answer_later(link_t *worker, uint64_t number, const char *why)
{
    ngx_str_t      frame;
    signer_told_t  told;

    signer_told_init(&told, number, SIGNER_LATER, why);
    frame.data = (u_char *) &told;
    frame.len = sizeof(told);
    return link_send(worker, LINK_SIGNER, &frame, 1, 0) == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


static char *
setting(const char *name, const ngx_str_t *value)
{
    char  *text = malloc(SETTING_MAX);

    if (text && ngx_snprintf((u_char *) text, SETTING_MAX - 1, "--%s=%V%Z", name, value)
                == (u_char *) text + SETTING_MAX - 1)
    {
        free(text);   /* cut, it could mean something else */
        return NULL;
    }
    return text;
}


/* Its socket is its standard input; what it logs goes where the edge's log goes. */
static ngx_int_t
spawn_program(int its_end)
{
    int                          rc, i;
    edge_conf_t                 *conf = edge_conf();
    char                        *argv[2 + SETTINGS] = {
        (char *) conf->fetch_program.data,
        setting("own-sockets", &conf->own_sockets),
        setting("out-denied", &conf->denied_upstreams),
        setting("out-allowed", &conf->out_allowed),
        setting("out-connect", &conf->out_connect),
        setting("out-ca", &conf->out_ca),
        NULL
    };
    posix_spawn_file_actions_t   files;

    rc = posix_spawn_file_actions_init(&files);
    for (i = 0; i < SETTINGS && rc == 0; i++) {
        rc = argv[1 + i] ? 0 : E2BIG;
    }
    if (rc == 0) {
        posix_spawn_file_actions_adddup2(&files, its_end, STDIN_FILENO);
        posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
        rc = posix_spawn(&program_pid, argv[0], &files, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&files);
    for (i = 0; i < SETTINGS; i++) {
        free(argv[1 + i]);
    }
    if (rc != 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, rc, "postern: cannot start \"%V\"",
                      &conf->fetch_program);
    }
    return rc == 0 ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
start_program(void)
{
    int  pair[2];

    if (edge_conf()->fetch_program.len == 0 || time(NULL) - started < AGAIN_S) {
        return NGX_ERROR;
    }
    started = time(NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, pair) != 0) {
        return NGX_ERROR;
    }
    if (spawn_program(pair[1]) != NGX_OK) {
        close(pair[0]);
        close(pair[1]);
        return NGX_ERROR;
    }
    close(pair[1]);
    program = pair[0];
    return NGX_OK;
}


static void
lose_program(void)
{
    close(program);
    program = -1;
    unanswered = 0;
    kill(program_pid, SIGKILL);
    waitpid(program_pid, NULL, 0);
}


void
edge_helper_signers_ask(link_t *worker, const ngx_str_t *frame)
{
    signer_ask_t  ask;

    if (!signer_ask_read(&ask, frame->data, frame->len)) {
        return;
    }
    if (program < 0 && start_program() != NGX_OK) {
        (void) answer_later(worker, ask.number, "there is no program that fetches");
        return;
    }
    if (send(program, &ask, sizeof(ask), MSG_DONTWAIT|MSG_NOSIGNAL) != (ssize_t) sizeof(ask)) {
        (void) answer_later(worker, ask.number, "the program that fetches takes no question");
        return;
    }
    if (unanswered++ == 0) {
        answered_ms = edge_clock_boot_ms();
    }
}


int
edge_helper_signers_fd(void)
{
    return program;
}


static ngx_int_t
lose_and_tell(link_t *worker, const char *what)
{
    lose_program();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "postern: the program that fetches certificates %s", what);
    return answer_later(worker, 0, "the program that fetches has ended");
}


int
edge_helper_signers_patience(void)
{
    uint64_t  since = edge_clock_boot_ms() - answered_ms;

    if (unanswered == 0) {
        return -1;
    }
    return since >= HUNG_MS ? 0 : (int) (HUNG_MS - since);
}


ngx_int_t
edge_helper_signers_watch(link_t *worker)
{
    return edge_helper_signers_patience() == 0
           ? lose_and_tell(worker, "answers nothing, and was ended") : NGX_OK;
}


ngx_int_t
edge_helper_signers_take(link_t *worker)
{
    char       packet[sizeof(signer_told_t) + 1];
    ssize_t    len;
    ngx_int_t  rc = NGX_OK;
    ngx_str_t  frame;

    while (program >= 0 && rc == NGX_OK) {
        len = recv(program, packet, sizeof(packet), MSG_DONTWAIT);
        if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
            return NGX_OK;
        }
        if (len <= 0) {
            return lose_and_tell(worker, "has ended");
        }
        unanswered -= unanswered > 0;
        answered_ms = edge_clock_boot_ms();
        frame.data = (u_char *) packet;
        frame.len = len;
        rc = link_send(worker, LINK_SIGNER, &frame, 1, 0) == NGX_ERROR ? NGX_ERROR : NGX_OK;
    }
    return rc;
}
