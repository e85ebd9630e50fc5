/* The key pairs of a route's module saml: one that signs requests, one that assertions are
 * encrypted to, and during a rotation one more of each, which is published beside it
 * (services/identity/README.md, Rotation of keys). Rules, and the
 * process's supply of keys. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>
#include <stdbool.h>

enum { SAML_KEYS_DUE_DAYS = 60 /* before a certificate ends that a next one is made */ };

/* Set the pairs of saml, whose key_rotation is what is wanted (absent or null: as it is). before:
 * the module as it is stored, opened; NULL: there is none. Pairs are kept where they are there, the
 * missing ones made for the route of that id, from keys that are ready (ready_keys.h): it takes as
 * long as the keys of RSA, up to four, of which none is ready.
 * 0 | ERR_INVALID_FIELD: this does not follow what is | fault. */
int saml_keys_complete(json_t *saml, const json_t *before, const char *id, problem_t *problem);

/* Whole days until the first certificate in use ends; see x509_days_left. */
int saml_keys_days_left(const json_t *saml);

/* Is a next pair to be made: does a certificate in use end soon, and is no rotation under way? */
bool saml_keys_are_due(const json_t *saml);
