/* A person (provider.h) as JSON: what a sign-in's code carries, and what a session keeps of its
 * provider's tokens. */
#pragma once

#include "services/identity/provider.h"

/* All of it. A new reference; NULL: no memory. */
json_t *person_json(const person_t *self);
/* The reverse; the caller calls person_done. False: an id, or who vouches for it, is missing. */
bool person_read(person_t *self, const json_t *value);

/* Its e-mail address, as far as the provider vouches for it: what it has not verified may be
 * anybody's. Borrowed; NULL: there is none. */
const char *person_vouched_email(const person_t *self);
/* The one that it has, and has not verified: who enters it as their own need not be who reads what
 * is sent there. Borrowed; NULL: there is none. */
const char *person_unverified_email(const person_t *self);

enum { PERSON_SKEW_MS = 60000 /* between a provider's clock and ours, as its engines allow */ };

/* The earliest moment at which the provider can have said this of the person, in ms since 1970 by
 * our clock: what ended all that is the person's since then ends this, too. It is not before the
 * browser was sent there (asked_ms; 0: it was not), nor before the provider says itself, whose
 * clock may be ahead. What does not say when it was made is as new as its coming, came_ms; nothing
 * is newer. */
int64_t person_proven_ms(const person_t *self, int64_t asked_ms, int64_t came_ms);

/* Its tokens alone, and what goes with them. */
json_t *person_tokens(const person_t *self);
/* Take those of the tokens that the person has none of. */
void person_add_tokens(person_t *self, const json_t *tokens);
