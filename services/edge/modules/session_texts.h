/* Who a session is of, out of what identity answers. No nginx in here. */
#pragma once

#include "services/edge/modules/sessions.h"

#include <msgpack.h>

/* Set the texts of a session from the map {user, provider_user_id, name, email, email_unverified,
 * groups}, which is not trusted. Texts for which there is no room are left out: groups first, all
 * of them or none, never who it is. False: that is missing, or has no room. */
bool session_read_texts(const msgpack_object *map, session_t *out);
