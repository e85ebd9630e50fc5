/* Rules of event destinations beyond their table. */
#pragma once

#include "common/resource/crud.h"

/* Exactly one target with complete authentication, whose kind never changes; a secret that an update
 * leaves empty stays what it was, because reads return it empty. */
int event_destination_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                            problem_t *problem);
