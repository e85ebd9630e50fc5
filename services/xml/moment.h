/* Times as SAML writes them: xs:dateTime in UTC (SAML core 1.3.3). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "2026-01-31T12:00:00Z", with a fraction of a second or without: milliseconds since 1970. False:
 * it is another form, another zone than Z, or no day of the calendar. */
bool moment_parse(const char *text, int64_t *ret_ms);
