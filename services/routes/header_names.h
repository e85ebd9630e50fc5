/* Headers that nobody but the edge sets: modules of routes and http_response backends alike. */
#pragma once

/* Why the header, in any case of its letters, can be neither added nor removed; NULL: it can. What
 * is of the connection belongs to the edge (RFC 9110 7.6.1; with HTTP/2 a message that has it is
 * malformed, RFC 9113 8.2.2), and so do names in which the edge speaks of itself. Borrowed. */
const char *header_name_refusal(const char *name);
