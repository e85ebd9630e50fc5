/* Which engines of sign-in this program has, by the module that they serve. */
#pragma once

#include "services/identity/provider.h"

/* NULL: none. */
const provider_t *engine_find(const char *module);
