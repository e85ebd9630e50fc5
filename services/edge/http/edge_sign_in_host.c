#include "services/edge/http/edge_sign_in_host.h"
#include "services/edge/http/edge_page.h"
#include "common/base/err.h"


ngx_int_t
edge_sign_in_host_handler(ngx_http_request_t *r)
{
    edge_ctx(r)->error = ERR_EDGE_NO_ROUTE;
    return edge_error_handler(r);
}
