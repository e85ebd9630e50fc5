/* The sign-in host: the host of postern_sign_in_url, which this edge serves for all accounts, and
 * which is in no table. No account can have it: services/routes/names.c. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/worker/edge_conf.h"

/* Check the directive, and set conf->sign_in_host. NGX_OK, also where there is none | NGX_ERROR,
 * logged. */
ngx_int_t edge_sign_in_url_check(ngx_conf_t *cf, edge_conf_t *conf);

/* Is that the host of this request? */
ngx_uint_t edge_sign_in_url_is(const edge_ctx_t *ctx);
