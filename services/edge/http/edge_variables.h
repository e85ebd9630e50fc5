/* Variables of nginx.conf. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* Make them, before the configuration is read. NGX_OK | NGX_ERROR. */
ngx_int_t edge_variables_add(ngx_conf_t *cf);
