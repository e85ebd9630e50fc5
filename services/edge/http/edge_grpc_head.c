#include "services/edge/http/edge_grpc_head.h"
#include "services/edge/http/h2.h"


/* Behind a string of HPACK (RFC 7541 5.2); NULL: it does not end before the end. */
static u_char *
skip_string(u_char *at, const u_char *end)
{
    size_t      len;
    ngx_uint_t  shift = 0;

    if (at == end) {
        return NULL;
    }
    len = *at++ & 0x7f;
    if (len == 0x7f) {
        do {
            if (at == end || shift > 21) {
                return NULL;
            }
            len += (size_t) (*at & 0x7f) << shift;
            shift += 7;
        } while (*at++ & 0x80);
    }
    return len <= (size_t) (end - at) ? at + len : NULL;
}


/* Behind so many fields of those that nginx writes first: method, scheme, path. */
static u_char *
skip_pseudo(u_char *at, const u_char *end, ngx_uint_t count)
{
    ngx_uint_t  i;

    for (i = 0; at && at < end && i < count; i++) {
        at = *at & 0x80 ? at + 1 : skip_string(at + 1, end);
    }
    return at && at < end ? at : NULL;
}


/* The payload of the request's first HEADERS frame, behind nginx's preface. NULL: nginx has written
 * something else. */
static u_char *
find_block(const ngx_buf_t *b, u_char **ret_end)
{
    enum { PREFACE = 64 };
    size_t   len;
    u_char  *frame = b->pos + PREFACE;

    if (b->last - frame < H2_FRAME_HEAD || frame[3] != NGX_HTTP_V2_HEADERS_FRAME) {
        return NULL;
    }
    len = (size_t) frame[0] << 16 | (size_t) frame[1] << 8 | frame[2];
    frame += H2_FRAME_HEAD;
    *ret_end = frame + len;
    return len <= (size_t) (b->last - frame) ? frame : NULL;
}


/* Host comes first in nginx.conf, and so right behind the pseudo-header fields. Its name is
 * replaced by the index of :authority, which is shorter: what is before it moves up. */
void
edge_grpc_name_authority(ngx_buf_t *b)
{
    enum { SAVED = 4 };
    u_char               *block, *end, *at;
    size_t                len;
    /* a literal without indexing: "host" in Huffman's code; the name's index in the static table */
    static const u_char   host[] = { 0x00, 0x83, 0x9c, 0xe8, 0x4f };
    static const u_char   authority = 0x01;

    block = find_block(b, &end);
    at = block ? skip_pseudo(block, end, 3) : NULL;
    if (at == NULL || (size_t) (end - at) <= sizeof(host)
        || ngx_memcmp(at, host, sizeof(host)) != 0)
    {
        return;
    }
    len = end - block - SAVED;
    block[-H2_FRAME_HEAD] = (u_char) (len >> 16);
    block[1 - H2_FRAME_HEAD] = (u_char) (len >> 8);
    block[2 - H2_FRAME_HEAD] = (u_char) len;
    at[SAVED] = authority;
    ngx_memmove(b->pos + SAVED, b->pos, at - b->pos);
    b->pos += SAVED;
    b->start = b->pos;
}


u_char *
edge_grpc_find_scheme(const ngx_buf_t *b)
{
    u_char  *end, *block = find_block(b, &end);
    u_char  *scheme = block ? skip_pseudo(block, end, 1) : NULL;

    return scheme && (*scheme == GRPC_SCHEME_HTTP || *scheme == GRPC_SCHEME_HTTPS) ? scheme : NULL;
}
