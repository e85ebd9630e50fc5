#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Is it a file of this user alone, and has one name? 0: errno is EPERM. */
ngx_uint_t edge_file_is_own(int file);
/* For reading and writing; one that is not there is made, for this user alone. -1: errno. */
int edge_file_open(const char *path, int flags);
