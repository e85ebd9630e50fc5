/* The file of session ticket keys. All processes of an edge share it: the workers of a master that
 * is being replaced, those of its successor, and those after a restart. Every helper checks the
 * file four times a second and sends new keys to its worker; the first helper that finds a rotation
 * due makes it, under the file's lock. The file's modification time is when its current key began.
 *
 * The file is overwritten in place, so that old keys do not remain on disk (as far as the disk
 * allows) and a full disk does not prevent a rotation. It is sealed like the other state: a copy of
 * the folder is useless without the edge's key, and a torn or foreign file is detected, after which
 * new keys are made. Removing the file invalidates all tickets at once. */
#include "services/edge/worker/edge_key.h"
#include "services/edge/worker/edge_file.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/tls/edge_tickets.h"

#include <sys/file.h>

enum { LOCK_TRIES = 20 };

static u_char      seen[TICKETS_BYTES];   /* sealed keys that the worker got last */
static ngx_uint_t  none;                  /* the worker was told that there are no keys */
static const char *said;                  /* the fault that was logged last; NULL: none */


static void
log_state(ngx_uint_t level, const char *what)
{
    if (said != what) {
        said = what;
        ngx_log_error(level, ngx_cycle->log, ngx_errno,
                      "postern: \"%V/ticket.keys\" %s",
                      &edge_conf()->state_dir, what);
    }
}


static ngx_fd_t
open_file(void)
{
    char  path[NGX_MAX_PATH];

    ngx_snprintf((u_char *) path, sizeof(path), "%V/ticket.keys%Z",
                 &edge_conf()->state_dir);
    return edge_file_open(path, O_NONBLOCK);
}


/* Each process holds the lock only briefly. NGX_AGAIN: still locked after LOCK_TRIES. */
static ngx_int_t
lock_file(ngx_fd_t file)
{
    ngx_uint_t  tries;

    for (tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(file, LOCK_EX|LOCK_NB) == 0) {
            return NGX_OK;
        }
        ngx_msleep(1);
    }
    return NGX_AGAIN;
}


/* Others have access to the file and may have read the keys: they are not used any more. */
static ngx_int_t
refuse_file(void)
{
    log_state(NGX_LOG_ERR, "cannot hold keys (is it a file, this user's alone, with one "
                           "name?): no session is resumed. Remove it");
    if (none) {
        return NGX_AGAIN;
    }
    none = 1;
    ngx_memzero(seen, sizeof(seen));
    return NGX_DECLINED;
}


/* Opens the file's keys, or makes new ones. Returns how many rotations are due. */
static unsigned
read_keys(const u_char *sealed, size_t n, time_t since, const u_char *key, tickets_t *out)
{
    if (tickets_open(sealed, n, key, out) == 0) {
        return tickets_due(since, time(NULL), edge_conf()->ticket_period / 1000);
    }
    if (n > 0) {
        ngx_set_errno(0);
        log_state(NGX_LOG_WARN, "is torn, or sealed with another key: new keys are made, and "
                                "no older session is resumed");
    }
    tickets_make(out);
    return TICKETS_KEYS;
}


/* Atomic for other processes: they read under the lock. */
static ngx_int_t
write_keys(ngx_fd_t file, const tickets_t *tickets, u_char *sealed, const u_char *key)
{
    tickets_seal(tickets, key, sealed);
    if (pwrite(file, sealed, TICKETS_BYTES, 0) == TICKETS_BYTES
        && ftruncate(file, TICKETS_BYTES) == 0)
    {
        return NGX_OK;
    }
    log_state(NGX_LOG_ERR, "cannot be written: the keys that there are serve for a period "
                           "more at most, and then no session is resumed");
    return NGX_ERROR;
}


/* Reads the file, and rotates its keys when due; the caller holds the file's lock. */
static ngx_int_t
look_at(ngx_fd_t file, edge_tickets_t *out)
{
    u_char       sealed[TICKETS_BYTES + 1], key[crypto_secretbox_KEYBYTES];
    ssize_t      n;
    unsigned     changes;
    ngx_int_t    rc = NGX_OK;
    struct stat  st;

    n = pread(file, sealed, sizeof(sealed), 0);
    if (n < 0 || fstat(file, &st) != 0) {
        log_state(NGX_LOG_ERR, "cannot be read");
        return NGX_AGAIN;
    }
    edge_key_derive("TLS session tickets", key);
    changes = read_keys(sealed, n, st.st_mtime, key, &out->tickets);
    if (changes) {
        tickets_rotate(&out->tickets, changes);
        rc = write_keys(file, &out->tickets, sealed, key);
        if (rc == NGX_OK && fstat(file, &st) != 0) {
            rc = NGX_ERROR;
        }
    }
    ngx_explicit_memzero(key, sizeof(key));
    if (rc != NGX_OK) {
        return NGX_AGAIN;
    }
    none = 0;
    said = NULL;
    if (ngx_memcmp(sealed, seen, sizeof(seen)) == 0) {
        return NGX_AGAIN;
    }
    ngx_memcpy(seen, sealed, sizeof(seen));
    out->since = st.st_mtime;
    return NGX_OK;
}


ngx_int_t
edge_ticket_file_look(edge_tickets_t *out)
{
    ngx_fd_t   file = open_file();
    ngx_int_t  rc;

    if (file == NGX_INVALID_FILE) {
        return refuse_file();
    }
    if (!edge_file_is_own(file)) {
        rc = refuse_file();
    } else if (lock_file(file) != NGX_OK) {
        rc = NGX_AGAIN;   /* tried again at the next check */
    } else {
        rc = look_at(file, out);
    }
    close(file);
    if (rc != NGX_OK) {
        ngx_explicit_memzero(out, sizeof(*out));
    }
    return rc;
}
