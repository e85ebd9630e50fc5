/* certificate_authority: parsed once, when it is uploaded. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"
#include "services/routes/x509.h"

static int certificate_authority_check(crud_t *crud, json_t *document, const json_t *old,
                                       json_t *references, problem_t *problem)
{
    (void)crud;
    (void)references;
    if (old)
        return 0;
    return x509_describe_authority(json_string_value(json_object_get(document, "ca_pem")), document,
                                   problem);
}

KIND_RULES(certificate_authority, .check = certificate_authority_check);
