/* Who has sent events: each start of an edge worker is a producer of its own, and a row. Those that are forgotten become part of
 * one row whose name is "", so that the sums over all rows stay. */
#pragma once

#include "common/store/pg.h"

#include <stdint.h>

/* Rows of one edge: 64 workers, started again 15 times. A row is needed as long as something that its producer numbered may still
 * come, and what comes late comes in order: it makes its row the youngest again. */
enum { PRODUCERS_OF_EDGE = 1024 };

/* Of the edges that these producers are of (a JSON array of names), those that were silent longest go where there are more than
 * PRODUCERS_OF_EDGE; of names itself none goes. 0 | fault. */
int producers_bound(pg_t *pg, const char *names);

/* Those that were not heard for so many days, and whose worker was started again as long ago. The last start of a worker stays,
 * however long it is silent, because its numbers go on where they were. *deleted: added to. 0 | fault. */
int producers_forget(pg_t *pg, long days, int64_t *deleted);
