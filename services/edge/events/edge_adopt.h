/* Events of workers that do not run any more (edge_adopt.c). */
#pragma once

/* At each turn of edge_handover.c: take over events that workers left which do not run any more.
 * Looks once a second, and does a bounded part at a time. */
void edge_adopt(void);
