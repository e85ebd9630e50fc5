/* saml: only who has signed in goes upstream (edge_sign_in.h). */
#include "services/edge/modules/edge_sign_in.h"


static void *
parse_saml(const msgpack_object *document, bool *bad)
{
    return sign_in_parse(document, "saml", bad);
}


static void
describe_saml(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_sign_in_describe(pk, r, ctx, MODULE_SAML);
}


const edge_module_t  module_saml = {
    .parse = parse_saml,
    .free = sign_in_free,
    .state_size = sizeof(edge_sign_in_state_t),
    .run = edge_sign_in_run,
    .abort = edge_sign_in_abort,
    .judge = edge_sign_in_judge,
    .clean = edge_sign_in_clean,
    .describe = describe_saml,
    .counters = edge_sign_in_counters,
};
