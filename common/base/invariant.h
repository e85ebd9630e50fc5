/* Assertions that are checked in release builds, too. Where a bug would read or write out of
 * bounds, or tell a peer something false, the process ends instead. Never for input: that is
 * refused with an error. An edge worker that ends like this is replaced, and its successor sends
 * the events that it left. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* One write, so that lines of processes that share a log do not mix; no allocation. */
__attribute__((noreturn, cold, noinline, unused)) static void
invariant_broken(const char *expression, const char *file, int line)
{
    char text[512];
    int len = snprintf(text, sizeof(text), "%s:%d: invariant broken: %s\n", file, line, expression);

    setvbuf(stderr, NULL, _IONBF, 0);
    if (len > 0)
        fwrite(text, 1, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1, stderr);
    abort();
}

#define INVARIANT(expression)                                                                      \
    ((expression) ? (void)0 : invariant_broken(#expression, __FILE__, __LINE__))
