/* The last configuration on disk, read: by the master before it forks, and what came since by each
 * worker. Records (record.h) are sealed: they hold private keys. A torn tail is ignored. */
#include "services/edge/control/edge_state.h"
#include "services/edge/control/edge_record.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_key.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"

#include <sodium.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    TRIES_MAX = 500,   /* of the master's trial: two deaths an entry */
    UNKNOWN_MAX = 3
};

static off_t       read_offset;
/* how the file begins that was read */
static u_char      read_head[RECORD_LENGTH + crypto_secretbox_NONCEBYTES];
static ngx_uint_t  cut;   /* more is there, which cannot be read */
static ngx_uint_t  deadly;   /* whoever reads it dies, and no entry is to blame */


/* ---- reading ---- */

/* NGX_OK | NGX_ERROR: a change before this one is missing, or it is no body of entries, so what
 * follows is of no use. */
static ngx_int_t
replay_record(const record_t *record, ngx_log_t *log)
{
    follow_message_t  message = {
        .kind = record->type,
        .log_id = record->log_id,
        .previous = record->previous,
        .revision = record->revision,
        .kept = true
    };

    switch (edge_worker_take(&message, record->body, record->body_len, log)) {
    case FOLLOW_ASK:
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "postern: the state file lacks what came before "
                      "revision %L: serving revision %L",
                      record->revision, edge_worker_at()->revision);
        return NGX_ERROR;
    case FOLLOW_FAILED:
        return NGX_ERROR;
    default:
        return NGX_OK;
    }
}


/* From read_offset on, up to the first that is torn or not ours. */
static void
read_records(ngx_fd_t file, ngx_log_t *log)
{
    u_char          *plain;
    ngx_int_t        rc = NGX_OK;
    struct stat      st;
    record_t   record;

    while (rc == NGX_OK
           && (plain = edge_record_read(file, &read_offset, &record)) != NULL)
    {
        rc = replay_record(&record, log);
        edge_record_free(plain);
    }
    cut = rc != NGX_OK || fstat(file, &st) != 0 || st.st_size > read_offset;
    if (cut && rc == NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "postern: the state file ends in a record that is "
                      "torn or sealed with another key, at byte %O",
                      read_offset);
    }
}


ngx_uint_t
edge_state_is_cut(void)
{
    return cut;
}


/* Another than the one that was read before? Nonces do not come twice; inode numbers do. */
static ngx_uint_t
is_another(ngx_fd_t file)
{
    u_char  head[sizeof(read_head)];

    if (pread(file, head, sizeof(head), 0) != (ssize_t) sizeof(head)) {
        ngx_memzero(head, sizeof(head));
    } else if (ngx_memcmp(head, read_head, sizeof(head)) == 0) {
        return 0;
    }
    ngx_memcpy(read_head, head, sizeof(head));
    return 1;
}


static void
path_of(char *out, size_t size)
{
    ngx_snprintf((u_char *) out, size, "%V/config.state%Z",
                 &edge_conf()->state_dir);
}


/* In the master before it forks, then in each worker for what came since. */
ngx_int_t
edge_state_load(ngx_cycle_t *cycle)
{
    char      path[NGX_MAX_PATH];
    ngx_fd_t  file;

    if (sodium_init() < 0 || edge_key_load(cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }
    path_of(path, sizeof(path));
    file = deadly ? NGX_INVALID_FILE
                  : ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file == NGX_INVALID_FILE) {
        return NGX_OK;   /* a new edge */
    }
    if (is_another(file)) {
        read_offset = 0;
        edge_worker_reread();
    }
    read_records(file, cycle->log);
    ngx_close_file(file);
    edge_worker_drop_arriving(1);   /* never finished */
    return NGX_OK;
}


/* ---- the trial ---- */

/* In a child: all of it, with no other end than its own. NGX_OK: nobody died of it. */
static ngx_int_t
try_once(ngx_cycle_t *cycle)
{
    int    status;
    pid_t  pid, parent = ngx_getpid();

    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            (void) edge_state_load(cycle);   /* what else is wrong the master finds out */
        }
        _exit(0);
    }
    if (pid < 0) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "postern: cannot fork to try the state file");
        return NGX_OK;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return NGX_OK;
        }
    }
    return status == 0 ? NGX_OK : NGX_ERROR;
}


/* In the master, which must not die of an entry: a child goes first, as often as it takes until
 * one comes through. What the master does then is what that child did. */
void
edge_state_try(ngx_cycle_t *cycle)
{
    char         path[NGX_MAX_PATH];
    ngx_uint_t   tries, unknown = 0;
    struct stat  st;

    path_of(path, sizeof(path));
    if (stat(path, &st) != 0) {
        return;
    }
    for (tries = 0; tries < TRIES_MAX && unknown < UNKNOWN_MAX; tries++) {
        if (try_once(cycle) == NGX_OK) {
            return;
        }
        if (!edge_vitals_trial_died(cycle->log)) {
            unknown++;
        }
    }
    deadly = cut = 1;
    ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                  "postern: whoever reads the state file dies: the edge starts "
                  "without it and serves nothing before the config log answers");
}
