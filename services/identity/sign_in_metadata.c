/* sign_in.metadata: what a route with the module saml tells identity providers of itself. */
#include "common/base/cleanup.h"
#include "services/identity/saml.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <string.h>

int on_sign_in_metadata(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(sealed_done) sealed_t sealed;
    _cleanup_(free_mem) char *text = NULL;
    char entity_id[RUN_URL_SIZE], acs[RUN_URL_SIZE], slo[RUN_URL_SIZE];
    int r = sealed_open(&sealed, sign_in_key(crud), request->body, &reply->problem);

    if (r)
        return r;
    if (strcmp(sealed.module, "saml") != 0)
        return ERR_NOT_FOUND;
    run_saml_urls(&sealed, entity_id, acs);
    run_saml_logout_url(&sealed, slo);
    text = saml_metadata(sealed.config, entity_id, acs, slo);
    if (!text)
        return fault(-EINVAL, "the certificate of a route with saml cannot be read");
    reply->body = json_pack("{s:s}", "metadata", text);
    return reply->body ? 0 : -ENOMEM;
}
