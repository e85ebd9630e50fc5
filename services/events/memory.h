/* Batches that producers on this machine leave in shared memory (proto/WIRE.md). */
#pragma once

#include "services/events/batch.h"

#include <czmq.h>

/* Copy the body that header names out of its file in directory dir.
 * 0 | -ESTALE: it is not there any more | -EACCES: this process cannot read it, ever | -EPERM: it is not its producer's.
 * Caller owns. */
int memory_fetch(const char *dir, const batch_t *batch, zframe_t **ret_body);
