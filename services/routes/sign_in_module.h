/* oauth, oidc and saml as edges get them: what an edge needs, the digest of the whole, and the
 * whole with its secrets, sealed for postern-identity. */
#pragma once

#include "common/base/secret.h"

#include <stdbool.h>
#include <stdint.h>

/* Their names, ended by NULL. */
extern const char *const sign_in_modules[];

/* Is it one of these modules? */
bool sign_in_module_is(const char *name);

/* Note when the module was changed last, later than each time before: its revision, of which an
 * unchanged module keeps the one that it had. before: as the route has it, NULL: it has none;
 * now_ms: Unix time. */
void sign_in_module_set_revision(json_t *module, const json_t *before, int64_t now_ms);

/* The document for edges: {enabled, module, cookie_prefix, options_passthrough, inactivity_timeout,
 * maximum_duration, auth_check_interval, allow_idp_initiated, service_tokens, bearer_tokens,
 * client_id, digest, sealed, place}, with all of them; 0, false and "" where the module has no such
 * field. name: of the module; row: of the route that has it, opened. digest:
 * common/schema/sign_in_digest.h. sealed: under this key, JSON of {route, account, edge, module,
 * config}, config is the module as it is; place: the same without config. NULL: no memory. */
json_t *sign_in_module_publish(const secret_key_t *key, const char *name, const json_t *row);

/* The same of a module that is off, which its provider may sign people out at still: {module,
 * sealed}. NULL: no memory. */
json_t *sign_in_module_publish_off(const secret_key_t *key, const char *name, const json_t *row);
