/* Rows of event producers: each start of an edge worker is a producer of its own. A producer that
 * is forgotten is added to the one row whose name is "", so that the sums over all rows stay. */
#pragma once

#include "common/store/pg.h"

#include <stdint.h>

/* Rows kept for one edge: 64 workers, started 16 times. A row is needed as long as an event with
 * one of its numbers may still come; what comes late comes in order, and makes its row the youngest
 * again. */
enum { PRODUCERS_OF_EDGE = 1024 };

/* For the edges of these producers (a JSON array of names): forget the rows that were silent
 * longest, beyond PRODUCERS_OF_EDGE, but none of names itself. 0 | fault. */
int producers_bound(pg_t *pg, const char *names);

/* Forget producers that were silent for so many days and whose worker was started again as long
 * ago. A worker's last start stays, however long it is silent, because its numbers go on. *deleted
 * is added to. 0 | fault. */
int producers_forget(pg_t *pg, long days, int64_t *deleted);
