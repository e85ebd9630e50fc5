#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* In the helper: start the threads that ask the system's resolver for the names that come by
 * this link, and answer there. */
ngx_int_t edge_helper_names_start(int link);
