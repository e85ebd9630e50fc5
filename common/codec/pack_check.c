/* pack_check in a file of its own: the only function of pack.h that the edge links. */
#include "common/codec/pack.h"
#include "common/codec/token.h"

#include <errno.h>

static int check_value(token_reader_t *in, int depth)
{
    token_t token;
    size_t children;
    int r;

    if (depth > PACK_DEPTH_MAX)
        return -EMSGSIZE;
    r = token_next(in, &token);
    if (r)
        return r;
    children = token.kind == TOKEN_MAP ? 2 * token.len : token.kind == TOKEN_ARRAY ? token.len : 0;
    while (!r && children-- > 0)
        r = check_value(in, depth + 1);
    return r;
}

int pack_check(const void *data, size_t len)
{
    token_reader_t in = {data, (const unsigned char *)data + len, 0, true};
    int r;

    if (len > PACK_BYTES_MAX)
        return -EMSGSIZE;
    r = check_value(&in, 0);
    if (r)
        return r;
    return in.at == in.end ? 0 : -EBADMSG;
}
