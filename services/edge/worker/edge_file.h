#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Is this open file a regular one, owned by this user, without permissions for others, and with one
 * name? 0: errno is EPERM. */
ngx_uint_t edge_file_is_own(int file);

/* Open a file for reading and writing, with further flags of open(2); created with mode 0600 if it
 * does not exist. The caller closes it. -1: errno. */
int edge_file_open(const char *path, int flags);
