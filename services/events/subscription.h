/* Rules of event subscriptions beyond their table. */
#pragma once

#include "common/resource/crud.h"

/* Each source's type occurs once; fields and filter only where its type takes them, with fields
 * that it has; a traffic event without fields gets all of them. */
int event_subscription_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                             problem_t *problem);
