/* An identity provider's metadata (SAML metadata 2.4.3): one EntityDescriptor, as it is stored. */
#pragma once

#include "services/xml/keys.h"

#include <jansson.h>

typedef struct metadata {
    char *entity_id;
    bool wants_signed_requests;
    json_t *sso, *slo; /* [{binding, location, response_location}] */
    keys_t keys;
} metadata_t;

/* Read it. A signature of the metadata is not looked at, nor validUntil: whoever stored it trusts
 * it. 0: metadata_done frees what is in it | ERR_SAML_METADATA | -ENOMEM. */
int metadata_read(metadata_t *self, const char *text, size_t len, problem_t *problem);

/* Free what it holds; also after metadata_read failed. */
void metadata_done(metadata_t *self);

/* What the verb saml.metadata answers. */
json_t *metadata_describe(const metadata_t *self);
