/* What a child that reads a message may do: think, read its standard input, write its standard
 * output, end. */
#pragma once

enum {
    SANDBOX_MEMORY = 64 << 20, /* bytes beside what the process had when it was measured */
    SANDBOX_CPU_SECONDS = 1,
    SANDBOX_CPU_MS = 250 /* the same, but not where a sanitizer makes all slow */
};

/* Measure how much memory the process has before it forks. 0 | fault. */
int sandbox_measure(void);

/* Enter it, for good, in a fresh child. Files but 0 and 1 are closed. A system call that is not
 * allowed ends the process (SIGSYS), and so do memory and time beyond the bounds. A build with a
 * sanitizer has no bound of memory, since its shadow has terabytes, keeps standard error for
 * reports, and may call what makes those. 0 | fault. */
int sandbox_enter(void);
