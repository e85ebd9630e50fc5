/* What the API shows of the browser that somebody signed in with: browser, system and device by its
 * User-Agent, and where its address is and whose network. */
#pragma once

#include "common/base/config.h"

#include <jansson.h>

/* Read the patterns and databases that the settings name; where none is named less is known. 0 |
 * -EINVAL: one that is named cannot be read, which is logged. */
int browser_setup(const config_t *config);

/* The value of browser_session, of an address and a User-Agent as edges gave them; NULL, and
 * what is no address: not known. Any thread. A new reference; NULL: no memory. */
json_t *browser_describe(const char *address, const char *agent);
