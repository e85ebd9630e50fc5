/* What the files of the formats share. */
#pragma once

#include "common/schema/format.h"

/* A format: check value, and write it in its one spelling into out (size bytes). NULL: it is fine;
 * else the fault's text, for which *outcome may be set. */
typedef const char *(*format_fn)(const char *value, char *out, size_t size, int *outcome);

/* ---- format_address.c ---- */

/* A host name of RFC 1123 2.1, lower case, of len bytes; a leading "*." only where wildcard. NULL:
 * it is one; else the fault's text. */
const char *format_hostname_fault(const char *name, size_t len, int wildcard);

/* Formats: of a domain; host:443; scheme://host:port; host:port of a reserved TCP address, of which
 * postern-routes checks that it is reserved; a network; host:port of an upstream; and a host, a
 * path, or both. */
const char *format_domain(const char *value, char *out, size_t size, int *outcome);
const char *format_hostport(const char *value, char *out, size_t size, int *outcome);
const char *format_endpoint_url(const char *value, char *out, size_t size, int *outcome);
const char *format_tcp_hostport(const char *value, char *out, size_t size, int *outcome);
const char *format_cidr(const char *value, char *out, size_t size, int *outcome);
const char *format_address(const char *value, char *out, size_t size, int *outcome);
const char *format_match(const char *value, char *out, size_t size, int *outcome);
