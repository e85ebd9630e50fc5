/* Who goes first where processors are short. */
#pragma once

/* For a process of the control plane, before it starts threads, which inherit it: when one of them wakes up it does not
 * interrupt what runs (SCHED_BATCH, sched(7)). Traffic goes first, and messages are handled several at a time. */
void priority_behind_traffic(void);
