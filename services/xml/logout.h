/* The rules of messages that end sessions (SAML profiles 4.4, core 3.7). */
#pragma once

#include "services/xml/expect.h"

#include <jansson.h>
#include <libxml/tree.h>

/* Judge a message that was verified, and write down into answer: of a LogoutRequest request_id,
 * name_id, name_id_format, name_qualifier, sp_name_qualifier, session_indexes, issued_ms (the last
 * millisecond that IssueInstant may mean: one in whole seconds is all of its second),
 * not_on_or_after_ms (five minutes after IssueInstant where it says nothing); of a LogoutResponse
 * response_id and status, a URI; of both issuer. 0 | ERR_SAML_MESSAGE. */
int logout_judge(const xmlNode *root, const expect_t *expect, const char *entity_id, json_t *answer,
                 problem_t *problem);

/* The Value of a message's StatusCode, borrowed; NULL: it has none, or several. */
const char *status_of(const xmlNode *root);

/* That of the StatusCode within it, which says more; borrowed. NULL: there is none. */
const char *status_within(const xmlNode *root);
