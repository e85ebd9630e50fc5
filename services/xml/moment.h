/* Times as SAML writes them: xs:dateTime in UTC (SAML core 1.3.3). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "2026-01-31T12:00:00Z", with a fraction of a second or without: milliseconds since 1970. False:
 * it is another form, another zone than Z, or no day of the calendar. */
bool moment_parse(const char *text, int64_t *ret_ms);

/* Of a text that moment_parse took: so many milliseconds later it may have been, for want of
 * digits: 999 without a fraction, 99 and 9 with one digit and two. */
int moment_doubt_ms(const char *text);
