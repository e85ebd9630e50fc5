/* User-Agent is not searched for names of browsers. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* To be called behind the configuration of each cycle. NGX_OK | NGX_ERROR: nginx knows no such
 * header. */
ngx_int_t edge_agent_install(ngx_conf_t *cf);
