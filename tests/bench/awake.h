/* Waiting without sleep, between two signals SIGUSR1 or from the start with BENCH_AWAKE=1: for client
 * and upstream of a bench, which share a CPU and a scheduling group. Who sends to a process that
 * sleeps pays for waking it, on a virtual machine a good part of what a request costs, and the
 * faster an engine is, the less the others sleep: a slower one would be charged for the leisure
 * that it gives them. */
#pragma once

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static volatile sig_atomic_t awake;

static void toggle_awake(int number)
{
    (void)number;
    awake = !awake;
}

static void awake_start(void)
{
    awake = getenv("BENCH_AWAKE") != NULL;
    signal(SIGUSR1, toggle_awake);
}

/* As epoll_wait; 0, too, after a signal. */
static int awake_wait(int epoll, struct epoll_event *events, int max, int ms)
{
    time_t began = time(NULL);
    int n;

    if (!awake)
        return epoll_wait(epoll, events, max, ms);
    do {
        n = epoll_wait(epoll, events, max, 0);
        if (!n)
            sched_yield();
    } while (!n && awake && (ms < 0 || time(NULL) - began <= ms / 1000));
    return n;
}
