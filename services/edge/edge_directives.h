/* Directives of nginx.conf. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* All of them; the last one is null. */
extern ngx_command_t  edge_directives[];

/* For ngx_http_module_t: make the settings of the edge, and of a location, without values, and give
 * what nginx.conf has not set its default, or the value of the location around it. NULL, or
 * NGX_CONF_ERROR: logged. */
void *edge_directives_create_main(ngx_conf_t *cf);
char *edge_directives_init_main(ngx_conf_t *cf, void *conf);
void *edge_directives_create_location(ngx_conf_t *cf);
char *edge_directives_merge_location(ngx_conf_t *cf, void *parent, void *child);
