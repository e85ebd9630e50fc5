/* The attributes of an assertion (SAML core 2.7.3), as {name: [values]}. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>
#include <libxml/tree.h>

/* Write them into answer as "attributes". An attribute that is there twice has the values of both;
 * a value that has elements is no text, and left out. 0 | ERR_SAML_MESSAGE: there are more than 256
 * attributes, 2,048 values or 96 KiB, or one is longer than 4 KiB. */
int attributes_take(const xmlNode *assertion, json_t *answer, problem_t *problem);
