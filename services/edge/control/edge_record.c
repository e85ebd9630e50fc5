#include "services/edge/control/edge_record.h"
#include "common/base/invariant.h"
#include "services/edge/worker/edge_key.h"

/* How many bytes follow the length of the record at this place; 0: no record begins so. */
static size_t
length_at(ngx_fd_t file, off_t at)
{
    u_char  head[RECORD_LENGTH];

    return pread(file, head, RECORD_LENGTH, at) == RECORD_LENGTH
           ? record_length(head) : 0;
}


ngx_int_t
edge_record_skip(ngx_fd_t file, off_t *at)
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
edge_record_read(ngx_fd_t file, off_t *at, record_t *record)
{
    size_t     len = length_at(file, *at);
    u_char    *sealed, *plain;

    if (len == 0) {
        return NULL;
    }
    INVARIANT(len >= RECORD_MIN);
    sealed = malloc(len);
    plain = sodium_malloc(len - RECORD_OVERHEAD);
    if (sealed == NULL || plain == NULL
        || pread(file, sealed, len, *at + RECORD_LENGTH) != (ssize_t) len
        || record_open(sealed, len, edge_key(), plain, record) != 0)
    {
        free(sealed);
        sodium_free(plain);
        return NULL;
    }
    free(sealed);
    *at += RECORD_LENGTH + len;
    return plain;
}


void
edge_record_free(u_char *plain)
{
    sodium_free(plain);
}
