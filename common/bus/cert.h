/* Files of CURVE keys, as zcert writes them. */
#pragma once

#include <czmq.h>

/* Read one. 0: the caller owns *ret_cert | -EBADMSG: it holds no key | -errno: it cannot be
 * read. */
int cert_load(zcert_t **ret_cert, const char *path);
