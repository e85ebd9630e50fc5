/* Bodies of batches that producers on this machine leave in shared memory (proto/WIRE.md,
 * Memory). */
#pragma once

#include "services/events/batch.h"

#include <czmq.h>

/* Copy a batch's body out of its file in directory dir; the caller owns the frame. 0 | -ESTALE: it
 * is not there any more | -EACCES: this process can never read it | -EPERM: the file is another
 * producer's. */
int memory_fetch(const char *dir, const batch_t *batch, zframe_t **ret_body);
