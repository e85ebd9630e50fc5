/* What a Signature element must look like before anything is computed for it. */
#pragma once

#include "services/xml/algorithms.h"

#include "common/base/err.h"

#include <libxml/tree.h>

typedef struct signature_shape {
    const algorithm_t *signature, *digest;
    char *digest_value; /* base64 */
} signature_shape_t;

/* Check the element against the list in signature.h, child by child: what is not in it is refused.
 * id: the ID of the element that it stands in and must sign. 0: the shape is the caller's |
 * ERR_SAML_MESSAGE. */
int signature_shape_read(signature_shape_t *self, const xmlNode *signature, const char *id,
                         problem_t *problem);

/* Free what it holds. */
void signature_shape_done(signature_shape_t *self);
