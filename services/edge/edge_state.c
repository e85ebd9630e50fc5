/* The last configuration on disk. Worker 0 appends every delta before it acknowledges it; a snapshot
 * goes to a new file that replaces the old one when it is complete. Records are sealed with
 * secretbox: they hold private keys. Record: 4 bytes length, nonce, box of
 * [type][log id, 64 bytes][revision, 8 bytes][body]. A torn tail is ignored. */
#include "edge.h"
#include "common/pack.h"

#include <sodium.h>

enum {
    HEAD = 1 + 64 + 8,
    RECORD_MAX = PACK_BYTES_MAX + 4096,
    RETIRE_BYTES = 1 << 20, /* of a file that was replaced, given back at once */
    RETIRE_SEC = 10,        /* a worker that starts may still be reading it */
    GROWTH = 16 << 20,      /* delta bytes after which a new snapshot is asked for */
    OVERHEAD = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES
};

static u_char    key[crypto_secretbox_KEYBYTES];
static ngx_fd_t  fd = NGX_INVALID_FILE;      /* current file, append */
static ngx_fd_t  fresh_fd = NGX_INVALID_FILE; /* snapshot in the making */
static ngx_fd_t  old_fd = NGX_INVALID_FILE;   /* the file before, which has no name any more */
static off_t     old_bytes;
static time_t    old_since;
static off_t     read_offset, delta_bytes, snapshot_bytes;
static ino_t     read_inode;
static ngx_uint_t broken;                    /* writing failed: said once */


static void
state_path(char *out, size_t size, const char *suffix)
{
    edge_conf_t  *conf = edge_worker.conf;

    ngx_snprintf((u_char *) out, size, "%V/config.state%s%Z",
                 &conf->state_dir, suffix);
}


static ngx_int_t
load_key(ngx_log_t *log)
{
    char          path[NGX_MAX_PATH];
    ngx_fd_t      file;
    ssize_t       n;
    edge_conf_t  *conf = edge_worker.conf;

    ngx_snprintf((u_char *) path, sizeof(path), "%V%Z", &conf->state_key);
    file = ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "postern: cannot open postern_state_key \"%s\": "
                      "make it with 32 random bytes", path);
        return NGX_ERROR;
    }
    n = ngx_read_fd(file, key, sizeof(key));
    ngx_close_file(file);
    if (n != (ssize_t) sizeof(key)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "postern: postern_state_key \"%s\" must hold 32 bytes",
                      path);
        return NGX_ERROR;
    }
    return NGX_OK;
}


ngx_int_t
edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log)
{
    ngx_int_t              rc = NGX_OK;
    msgpack_object        *entry, *items;
    msgpack_unpacked       unpacked;
    uint32_t               i;

    if (pack_check(body, len)) {
        return NGX_ERROR;
    }
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, body, len, NULL)
            != MSGPACK_UNPACK_SUCCESS
        || unpacked.data.type != MSGPACK_OBJECT_ARRAY)
    {
        msgpack_unpacked_destroy(&unpacked);
        return NGX_ERROR;
    }
    for (i = 0; i < unpacked.data.via.array.size; i++) {
        entry = &unpacked.data.via.array.ptr[i];
        items = entry->via.array.ptr;
        if (entry->type != MSGPACK_OBJECT_ARRAY || entry->via.array.size != 3
            || items[0].type != MSGPACK_OBJECT_STR
            || items[1].type != MSGPACK_OBJECT_STR
            || table_apply(table, items[0].via.str.ptr, items[0].via.str.size,
                           items[1].via.str.ptr, items[1].via.str.size,
                           &items[2]))
        {
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "postern: skipped a config entry that breaks the "
                          "tables' rules");
            rc = NGX_DECLINED;
        }
    }
    msgpack_unpacked_destroy(&unpacked);
    return rc;
}


void
edge_swap(table_t *fresh)
{
    edge_retire(edge_worker.table);
    edge_worker.table = fresh;
}


/* Freed in the background, a little at a time. */
void
edge_retire(table_t *table)
{
    table->next = edge_worker.retired;
    edge_worker.retired = table;
}


static table_t *
new_table(void)
{
    table_t  *table = table_new();

    table->free_parsed = edge_tls_free_parsed;
    table->backend_added = edge_resolve_add;
    return table;
}


static void
replay(u_char *plain, size_t len, ngx_log_t *log)
{
    int64_t   revision;

    ngx_memcpy(&revision, plain + 65, 8);
    switch (plain[0]) {
    case STATE_SNAPSHOT:
        if (edge_worker.building) {
            while (!table_free_some(&edge_worker.building, 10000)) { /* void */ }
        }
        edge_worker.building = new_table();
        /* fall through */
    case STATE_MORE:
        if (edge_worker.building) {
            edge_apply(edge_worker.building, plain + HEAD, len - HEAD, log);
        }
        return;
    case STATE_END:
        if (edge_worker.building == NULL) {
            return;
        }
        edge_swap(edge_worker.building);
        edge_worker.building = NULL;
        break;
    case STATE_DELTA:
        if (revision <= edge_worker.revision) {
            return;
        }
        edge_apply(edge_worker.table, plain + HEAD, len - HEAD, log);
        break;
    default:
        return;
    }
    edge_worker.revision = revision;
    ngx_memcpy(edge_worker.log_id, plain + 1, 63);
}


/* Read records from read_offset on; stops at the first that is torn or not ours. */
static void
read_records(ngx_fd_t file, ngx_log_t *log)
{
    u_char    *sealed, *plain, head[4];
    size_t     len;

    for ( ;; ) {
        if (pread(file, head, 4, read_offset) != 4) {
            return;
        }
        len = (size_t) head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
        if (len < OVERHEAD + HEAD || len > RECORD_MAX) {
            return;
        }
        sealed = malloc(len);
        plain = malloc(len);
        if (sealed == NULL || plain == NULL
            || pread(file, sealed, len, read_offset + 4) != (ssize_t) len
            || crypto_secretbox_open_easy(plain,
                   sealed + crypto_secretbox_NONCEBYTES,
                   len - crypto_secretbox_NONCEBYTES, sealed, key))
        {
            ngx_log_error(NGX_LOG_WARN, log, 0,
                          "postern: the state file ends in a record that is "
                          "torn or sealed with another key, at byte %O",
                          read_offset);
            free(sealed);
            free(plain);
            return;
        }
        replay(plain, len - OVERHEAD, log);
        sodium_memzero(plain, len);
        free(sealed);
        free(plain);
        read_offset += 4 + len;
    }
}


void
edge_state_name(const char *prefix, char *out, size_t size)
{
    u_char  hash[16];
    char    hex[2 * sizeof(hash) + 1];

    crypto_generichash(hash, sizeof(hash), (const u_char *) prefix,
                       ngx_strlen(prefix), key, sizeof(key));
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    ngx_snprintf((u_char *) out, size, "%s%s%Z", prefix, hex);
}


/* In the master before it forks, then in each worker for what came since. */
ngx_int_t
edge_state_load(ngx_cycle_t *cycle)
{
    char             path[NGX_MAX_PATH];
    ngx_fd_t         file;
    struct stat      st;

    if (sodium_init() < 0 || load_key(cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }
    if (edge_worker.table == NULL) {
        edge_worker.table = new_table();
    }
    state_path(path, sizeof(path), "");
    file = ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file == NGX_INVALID_FILE) {
        return NGX_OK;   /* a new edge */
    }
    if (fstat(file, &st) == 0) {
        if (st.st_ino != read_inode) {
            /* another file than the one the master read: all of it */
            read_inode = st.st_ino;
            read_offset = 0;
            edge_worker.revision = 0;
        }
        read_records(file, cycle->log);
    }
    ngx_close_file(file);
    if (edge_worker.building) {   /* never finished */
        while (!table_free_some(&edge_worker.building, 10000)) { /* void */ }
    }
    return NGX_OK;
}


static ngx_int_t
write_record(ngx_fd_t file, int type, int64_t revision, const void *body,
    size_t len)
{
    ssize_t   n;
    size_t    total = 4 + OVERHEAD + HEAD + len;
    u_char   *plain, *out;

    plain = malloc(HEAD + len);
    out = malloc(total);
    if (plain == NULL || out == NULL) {
        free(plain);
        free(out);
        return NGX_ERROR;
    }
    ngx_memzero(plain, HEAD);
    plain[0] = (u_char) type;
    ngx_cpystrn(plain + 1, (u_char *) edge_worker.log_id, 64);
    ngx_memcpy(plain + 65, &revision, 8);
    if (len) {
        ngx_memcpy(plain + HEAD, body, len);
    }
    n = total - 4;
    out[0] = (u_char) (n >> 24);
    out[1] = (u_char) (n >> 16);
    out[2] = (u_char) (n >> 8);
    out[3] = (u_char) n;
    randombytes_buf(out + 4, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(out + 4 + crypto_secretbox_NONCEBYTES, plain,
                          HEAD + len, out + 4, key);
    n = write(file, out, total);
    sodium_memzero(plain, HEAD + len);
    free(plain);
    free(out);
    return n == (ssize_t) total ? NGX_OK : NGX_ERROR;
}


static void
finish_snapshot(void)
{
    char  path[NGX_MAX_PATH], temp[NGX_MAX_PATH];

    state_path(path, sizeof(path), "");
    state_path(temp, sizeof(temp), ".new");
    if (ngx_rename_file(temp, path) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot replace \"%s\"", path);
        return;
    }
    if (old_fd != NGX_INVALID_FILE) {
        ngx_close_file(old_fd);
    }
    old_fd = fd;
    old_bytes = old_fd == NGX_INVALID_FILE ? 0 : lseek(old_fd, 0, SEEK_END);
    old_since = ngx_time();
    fd = fresh_fd;
    fresh_fd = NGX_INVALID_FILE;
    snapshot_bytes = lseek(fd, 0, SEEK_END);
    delta_bytes = 0;
    broken = 0;
}


/* The last name of the old file is gone: its pages are given back a little at a time, because closing
 * a large one takes milliseconds. */
ngx_uint_t
edge_state_retire(void)
{
    if (old_fd == NGX_INVALID_FILE || ngx_time() - old_since < RETIRE_SEC) {
        return 0;
    }
    old_bytes -= RETIRE_BYTES;
    if (old_bytes > 0 && ftruncate(old_fd, old_bytes) == 0) {
        return 1;
    }
    ngx_close_file(old_fd);
    old_fd = NGX_INVALID_FILE;
    return 0;
}


static ngx_fd_t
open_state(const char *suffix, int flags)
{
    char      path[NGX_MAX_PATH];
    ngx_fd_t  file;

    state_path(path, sizeof(path), suffix);
    file = open(path, O_WRONLY|O_APPEND|O_CLOEXEC|flags, 0600);
    if (file == NGX_INVALID_FILE && !broken) {
        broken = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot write \"%s\": a restart without the "
                      "control plane will serve an older configuration", path);
    }
    return file;
}


void
edge_state_write(int type, int64_t revision, const void *body, size_t len)
{
    ngx_fd_t  file;

    if (ngx_worker != 0) {
        return;   /* one writer */
    }
    if (type == STATE_SNAPSHOT) {
        if (fresh_fd != NGX_INVALID_FILE) {
            ngx_close_file(fresh_fd);
        }
        fresh_fd = open_state(".new", O_CREAT|O_TRUNC);
    }
    if (type == STATE_DELTA && fd == NGX_INVALID_FILE) {
        fd = open_state("", 0);
    }
    file = type == STATE_DELTA ? fd : fresh_fd;
    if (file == NGX_INVALID_FILE) {
        return;
    }
    if (write_record(file, type, revision, body, len) != NGX_OK && !broken) {
        broken = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot write the state file: is the disk full?");
    }
    if (type == STATE_END) {
        finish_snapshot();
    } else if (type == STATE_DELTA) {
        delta_bytes += len + HEAD;
    }
}


ngx_uint_t
edge_state_wants_snapshot(void)
{
    return ngx_worker == 0
           && (broken || delta_bytes > GROWTH + 2 * snapshot_bytes);
}
