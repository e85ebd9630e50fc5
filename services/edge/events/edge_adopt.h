#pragma once

/* Send from here the events that workers left that are no more; called now and then. */
void edge_adopt(void);
