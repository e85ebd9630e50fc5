/* Who can own keys and credentials: users, bot users and service users. */
#pragma once

#include "common/resource/crud.h"

/* Fill in owner_id of a document that is being created (default: the caller) and check it. A bot or
 * service user that owns something cannot be deleted. 0 | code | fault. */
int owner_check(crud_t *crud, json_t *document, json_t *references, problem_t *problem);
