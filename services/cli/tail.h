/* postern tail: events as JSON lines on standard output; reports of missed events on standard
 * error. */
#pragma once

#include <czmq.h>

/* Print events until SIGTERM. sub is subscribed to prefix; log: socket for requests to the event
 * service, or NULL. Returns the exit status. */
int tail_run(zsock_t *sub, zsock_t *log, const char *prefix);
