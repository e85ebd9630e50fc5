/* Who may enter: the allow-lists of the modules that sign users in, judged on what the provider
 * says of the person. Pure, so that sign-in, redemption of its code and every later check decide
 * alike. */
#pragma once

#include "services/identity/provider.h"

/* Do the rules of the module's document admit the person? Lists are alternatives: one that matches
 * is enough. Where all are empty everybody is admitted whom the provider vouches for. What cannot
 * be read admits nobody. why, of refusals: one line that names the kinds of rules, never their
 * values; size is at least 1. */
bool sign_in_admits(const char *module, const json_t *config, const person_t *who, char *why,
                    size_t size);

/* Is it one e-mail address whose domain is certain? ASCII only; a host name of RFC 1123 2.1 behind
 * the only @, or behind the last one where what is before it is a quoted string (RFC 5321 4.1.2).
 * *ret_domain: the domain, within text. */
bool email_is_plain(const char *text, const char **ret_domain);
