/* postern tail: events as JSON lines on standard output, and on standard error what of them was missed. */
#pragma once

#include <czmq.h>

/* Until SIGTERM. sub is subscribed to prefix; log: the event service's requests, or NULL. Returns the exit status. */
int tail_run(zsock_t *sub, zsock_t *log, const char *prefix);
