/* nginx writes into its error log what clients and upstreams have sent, as it came: a line feed in
 * it begins a line that nobody wrote, and an escape is the operator's terminal's. All of nginx's
 * lines go through here, because which of them have something from outside nobody can tell. */
#include "services/edge/worker/edge_log_lines.h"
#include "services/edge/worker/log_escape.h"

#include <limits.h>

/* What a pipe takes at once (pipe(7)): of workers that share one no line is cut by another's. */
enum { LINE_MAX_BYTES = PIPE_BUF };


static void
write_line(ngx_log_t *log, ngx_uint_t level, u_char *line, size_t len)
{
    u_char   out[LINE_MAX_BYTES];
    ssize_t  written;
    size_t   n;

    if (log->file == NULL || log->file->fd == NGX_INVALID_FILE
        || ngx_time() == log->disk_full_time
        || (ngx_use_stderr && level <= NGX_LOG_WARN && log->file->fd == ngx_stderr))
    {
        return;   /* the last: while it starts nginx writes this itself */
    }
    if (len > 0 && line[len - 1] == LF) {
        len--;
    }
    n = log_escape(out, sizeof(out) - 1, line, len);
    out[n++] = LF;
    written = ngx_write_fd(log->file->fd, out, n);
    if (written == -1 && ngx_errno == NGX_ENOSPC) {
        log->disk_full_time = ngx_time();
    }
}


void
edge_log_lines_install(ngx_cycle_t *cycle)
{
    for (ngx_log_t *log = &cycle->new_log; log; log = log->next) {
        if (log->writer == NULL) {
            log->writer = write_line;
        }
    }
}
