/* Rules of event subscriptions beyond their table. */
#pragma once

#include "common/resource/crud.h"

/* Each source's type once; fields and filter where the type takes them, and only what it has; a traffic event without
 * fields gets all. */
int event_subscription_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                             problem_t *problem);
