/* Scheduling priority of the control plane. */
#pragma once

/* Call it before threads are started, which inherit it: when a thread of this process wakes up it
 * does not preempt others (SCHED_BATCH, sched(7)). Traffic goes first, and messages are handled
 * several at a time. */
void priority_behind_traffic(void);
