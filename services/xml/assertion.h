/* The rules of an assertion that signs somebody in (SAML profiles 4.1.4.3, core 2.3 to 2.7). */
#pragma once

#include "services/xml/expect.h"

#include <jansson.h>
#include <libxml/tree.h>
#include <stdbool.h>

/* Judge an assertion, whose octets were verified, and write down what it says into answer: issuer,
 * name_id, name_id_format, name_qualifier, sp_name_qualifier, session_index, attributes,
 * assertion_id, not_on_or_after_ms, authn_instant_ms, session_not_on_or_after_ms. 0 |
 * ERR_SAML_MESSAGE | -ENOMEM. */
int assertion_judge(const xmlNode *assertion, const expect_t *expect, const char *entity_id,
                    json_t *answer, problem_t *problem);

/* Has it no control character and no white space around it, and is it not empty? Names and indexes
 * are compared byte by byte. */
bool assertion_text_is_plain(const char *text);

/* Write down the one NameID of a Subject or of a LogoutRequest. 0 | ERR_SAML_MESSAGE. */
int assertion_take_name(const xmlNode *parent, json_t *answer, problem_t *problem);
