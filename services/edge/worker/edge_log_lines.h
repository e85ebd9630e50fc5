#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Have nginx's error logs written with what log_escape.h says escaped, as \x1b. For
 * postconfiguration, when error_log has been read; logs of syslog are left as they are. */
void edge_log_lines_install(ngx_cycle_t *cycle);
