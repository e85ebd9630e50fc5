/* Rules of event destinations beyond their table. */
#pragma once

#include "common/resource/crud.h"

/* A destination has exactly one target, with complete authentication, and its kind never changes.
 * Reads return secrets as empty strings, so an update that leaves one empty keeps it. */
int event_destination_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                            problem_t *problem);
