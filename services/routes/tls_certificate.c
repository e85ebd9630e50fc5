/* tls_certificate: parsed once, when it is uploaded. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"
#include "services/routes/x509.h"

#include <errno.h>

static int tls_certificate_check(crud_t *crud, json_t *document, const json_t *old,
                                 json_t *references, problem_t *problem)
{
    (void)crud;
    (void)references;
    if (old)
        return 0; /* chain and key cannot change after creation */
    return x509_describe(json_string_value(json_object_get(document, "certificate_pem")),
                         json_string_value(json_object_get(document, "private_key_pem")), document,
                         problem);
}

static int tls_certificate_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    (void)crud;
    *ret_document =
        json_pack("{s:O, s:O}", "certificate_pem", json_object_get(row, "certificate_pem"),
                  "private_key_pem", json_object_get(row, "private_key_pem"));
    return *ret_document ? 0 : -ENOMEM;
}

KIND_RULES(tls_certificate, .check = tls_certificate_check, .publish = tls_certificate_publish);
