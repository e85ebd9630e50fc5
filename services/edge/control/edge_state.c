/* The last configuration on disk, read: by the master before it forks, and what came since by each
 * worker. Records (record.h) are sealed: they hold private keys. A torn tail is ignored. */
#include "services/edge/control/edge_state.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_store.h"
#include "services/edge/control/follow.h"
#include "services/edge/control/record.h"
#include "services/edge/tls/edge_tls.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"
#include "common/codec/pack.h"

#include <sodium.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    TRIES_MAX = 500,   /* of the master's trial: two deaths an entry */
    UNKNOWN_MAX = 3
};

static u_char      key[crypto_secretbox_KEYBYTES];
static off_t       read_offset;
static u_char      read_head[RECORD_LENGTH + crypto_secretbox_NONCEBYTES];   /* how the file begins that was read */
static char        arriving_log_id[64];   /* of the snapshot in edge_worker.building */
static int64_t     arriving_revision;
static ngx_uint_t  cut;   /* more is there, which cannot be read */
static ngx_uint_t  deadly;   /* whoever reads it dies, and no entry is to blame */


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


/* How many, and where the first begins. 0 with *at 0: no array. */
static uint32_t
array_head(const u_char *data, size_t len, size_t *at)
{
    *at = 0;
    if (len >= 1 && (data[0] & 0xf0) == 0x90) {
        *at = 1;
        return data[0] & 0x0f;
    }
    if (len >= 3 && data[0] == 0xdc) {
        *at = 3;
        return (uint32_t) data[1] << 8 | data[2];
    }
    if (len >= 5 && data[0] == 0xdd) {
        *at = 5;
        return (uint32_t) data[1] << 24 | data[2] << 16 | data[3] << 8
               | data[4];
    }
    return 0;
}


/* bytes: all of the entry, as it came. */
static void
apply_entry(table_t *table, const msgpack_object *entry, const ngx_str_t *bytes,
    ngx_log_t *log)
{
    trust_t          trust;
    ngx_str_t        kind = ngx_string("?"), id = ngx_string("?");
    ngx_int_t        rc = NGX_ERROR;
    msgpack_object  *items = entry->via.array.ptr;

    if (entry->type == MSGPACK_OBJECT_ARRAY && entry->via.array.size == 3
        && items[0].type == MSGPACK_OBJECT_STR
        && items[1].type == MSGPACK_OBJECT_STR)
    {
        kind.data = (u_char *) items[0].via.str.ptr;
        kind.len = items[0].via.str.size;
        id.data = (u_char *) items[1].via.str.ptr;
        id.len = items[1].via.str.size;
        trust = edge_vitals_begin(&kind, &id, bytes, log);
        rc = table_apply(table, (char *) kind.data, kind.len,
                         (char *) id.data, id.len, &items[2], trust);
        edge_vitals_end();
    }
    if (rc != 0) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "postern: %V %V cannot be applied: what it stands for "
                      "answers 503", &kind, &id);
    }
}


ngx_int_t
edge_apply(table_t *table, const void *body, size_t len, ngx_log_t *log)
{
    size_t            at, from;
    uint32_t          left;
    ngx_str_t         bytes;
    msgpack_unpacked  unpacked;

    if (pack_check(body, len)) {
        return NGX_ERROR;
    }
    left = array_head(body, len, &at);
    if (at == 0) {
        return NGX_ERROR;
    }
    msgpack_unpacked_init(&unpacked);
    for ( ; left > 0; left--) {
        from = at;
        if (msgpack_unpack_next(&unpacked, body, len, &at)
            != MSGPACK_UNPACK_SUCCESS)
        {
            break;
        }
        bytes.data = (u_char *) body + from;
        bytes.len = at - from;
        apply_entry(table, &unpacked.data, &bytes, log);
    }
    msgpack_unpacked_destroy(&unpacked);
    return left == 0 ? NGX_OK : NGX_ERROR;
}


void
edge_swap(table_t *fresh)
{
    fresh->before = NULL;
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


table_t *
edge_table_new(void)
{
    table_t  *table = table_new();

    table->free_parsed = edge_tls_free_parsed;
    table->backend_added = edge_resolve_add;
    return table;
}


/* ---- records ---- */

/* What follows the length; 0: no record begins so. */
static size_t
length_at(ngx_fd_t file, off_t at)
{
    u_char  head[RECORD_LENGTH];

    return pread(file, head, RECORD_LENGTH, at) == RECORD_LENGTH
           ? record_length(head) : 0;
}


ngx_int_t
edge_state_skip(ngx_fd_t file, off_t *at)
{
    size_t       len = length_at(file, *at);
    struct stat  st;

    if (len == 0 || fstat(file, &st) != 0
        || *at + RECORD_LENGTH + (off_t) len > st.st_size)
    {
        return NGX_DONE;
    }
    *at += RECORD_LENGTH + len;
    return NGX_OK;
}


u_char *
edge_state_read(ngx_fd_t file, off_t *at, state_record_t *record)
{
    size_t     len = length_at(file, *at);
    u_char    *sealed, *plain;
    record_t   read;

    if (len == 0) {
        return NULL;
    }
    sealed = malloc(len);
    plain = sodium_malloc(len - RECORD_OVERHEAD);
    if (sealed == NULL || plain == NULL
        || pread(file, sealed, len, *at + RECORD_LENGTH) != (ssize_t) len
        || record_open(sealed, len, key, plain, &read) != 0)
    {
        free(sealed);
        sodium_free(plain);
        return NULL;
    }
    free(sealed);
    record->type = read.type;
    ngx_memcpy(record->log_id, read.log_id, sizeof(record->log_id));
    record->previous = read.previous;
    record->revision = read.revision;
    record->body.data = (u_char *) read.body;
    record->body.len = read.body_len;
    *at += RECORD_LENGTH + len;
    return plain;
}


void
edge_state_free(u_char *plain)
{
    sodium_free(plain);
}


u_char *
edge_state_seal(const state_record_t *record, size_t *len)
{
    record_t  sealed;

    sealed.type = record->type;
    ngx_memcpy(sealed.log_id, record->log_id, sizeof(sealed.log_id));
    sealed.previous = record->previous;
    sealed.revision = record->revision;
    sealed.body = record->body.data;
    sealed.body_len = record->body.len;
    return record_seal(&sealed, key, len);
}


/* ---- reading ---- */

static void
drop_building(void)
{
    while (edge_worker.building
           && !table_free_some(&edge_worker.building, 10000)) { /* void */ }
}


/* NGX_OK | NGX_ERROR: a change before this one is missing, or it is no body of entries, so what follows is of no use. */
static ngx_int_t
replay(const state_record_t *record, ngx_log_t *log)
{
    const ngx_str_t  *body = &record->body;
    follow_t          at = { edge_worker.log_id, edge_worker.revision,
                             edge_worker.building != NULL, arriving_log_id,
                             arriving_revision };

    switch (follow_record(&at, record->type, record->log_id, record->previous,
                          record->revision))
    {
    case FOLLOW_BEGIN:
        drop_building();
        edge_worker.building = edge_table_new();
        edge_worker.building->before = edge_worker.table;
        ngx_memcpy(arriving_log_id, record->log_id, sizeof(arriving_log_id));
        arriving_revision = record->revision;
        /* fall through */
    case FOLLOW_ADD:
        return edge_apply(edge_worker.building, body->data, body->len, log);
    case FOLLOW_END:
        edge_swap(edge_worker.building);
        edge_worker.building = NULL;
        break;
    case FOLLOW_CHANGE:
        if (edge_apply(edge_worker.table, body->data, body->len, log)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
        break;
    case FOLLOW_NOTHING:
        return NGX_OK;
    default:
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "postern: the state file lacks what came before "
                      "revision %L: serving revision %L",
                      record->revision, edge_worker.revision);
        return NGX_ERROR;
    }
    edge_worker.revision = record->revision;
    ngx_memcpy(edge_worker.log_id, record->log_id, sizeof(edge_worker.log_id));
    return NGX_OK;
}


/* From read_offset on, up to the first that is torn or not ours. */
static void
read_records(ngx_fd_t file, ngx_log_t *log)
{
    u_char          *plain;
    ngx_int_t        rc = NGX_OK;
    struct stat      st;
    state_record_t   record;

    while (rc == NGX_OK
           && (plain = edge_state_read(file, &read_offset, &record)) != NULL)
    {
        rc = replay(&record, log);
        edge_state_free(plain);
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


void
edge_state_derive(const char *purpose, u_char *out)
{
    crypto_generichash(out, crypto_secretbox_KEYBYTES, (const u_char *) purpose,
                       ngx_strlen(purpose), key, sizeof(key));
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
                 &edge_worker.conf->state_dir);
}


/* In the master before it forks, then in each worker for what came since. */
ngx_int_t
edge_state_load(ngx_cycle_t *cycle)
{
    char      path[NGX_MAX_PATH];
    ngx_fd_t  file;

    if (sodium_init() < 0 || load_key(cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }
    if (edge_worker.table == NULL) {
        edge_worker.table = edge_table_new();
    }
    path_of(path, sizeof(path));
    file = deadly ? NGX_INVALID_FILE
                  : ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file == NGX_INVALID_FILE) {
        return NGX_OK;   /* a new edge */
    }
    if (is_another(file)) {
        read_offset = 0;
        edge_worker.revision = 0;
    }
    read_records(file, cycle->log);
    ngx_close_file(file);
    drop_building();   /* never finished */
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


/* In the master, which must not die of an entry: a child goes first, as often as it takes until one comes through. What the
 * master does then is what that child did. */
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
