/* The sealed module of a route, which edges carry and cannot read: postern-routes sealed it
 * under the master key. What it says is certain; what the edge says beside it is not. */
#pragma once

#include "common/resource/crud.h"
#include "common/schema/sign_in_digest.h"
#include "services/identity/provider.h"

enum { SEALED_MAX = 512 << 10, SEALED_PLACE_SIZE = 200 };

typedef struct sealed {
    json_t *all; /* {route, account, edge, module, config}; the others are borrowed from it */
    const char *route, *account, *edge, *module;
    const json_t *config;
    int64_t revision; /* higher with each change of the module; 0: a version sealed it that did not
                       * know of that */
    char digest[SIGN_IN_DIGEST_SIZE];
    const provider_t *engine; /* of the module; NULL: this version has none */
} sealed_t;

/* Open the body's field "sealed", a module that is on, and note its revision (rules_newest.h). 0 |
 * ERR_REQUIRED_MISSING, ERR_INVALID_FIELD | -ENOMEM. *self is for sealed_done in any case. */
int sealed_open(sealed_t *self, const secret_key_t *key, const json_t *body, problem_t *problem);
/* The same of one that may be off: of that edges bring what its provider signs people out with. */
int sealed_open_any(sealed_t *self, const secret_key_t *key, const json_t *body,
                    problem_t *problem);
/* The same of what says whose module it is, without rules ("place"; "sealed" will do): config and
 * digest may be missing. */
int sealed_open_place(sealed_t *self, const secret_key_t *key, const json_t *body,
                      problem_t *problem);
/* Does it name an engine that this version has? 0 | ERR_SIGN_IN_UNAVAILABLE. */
int sealed_check_engine(const sealed_t *self, problem_t *problem);
/* Which module of which route it is, "route module made_id": another one where the route had none
 * in between. */
void sealed_place(const sealed_t *self, char out[SEALED_PLACE_SIZE]);
/* A number of the module's document; 0: it has none. */
int64_t sealed_number(const sealed_t *self, const char *field);
/* Wipe and free. */
void sealed_done(sealed_t *self);
