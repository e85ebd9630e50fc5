/* A file of event batches that found no room in a worker's ring: appended at its end, read in
 * order, and gone when all of them are acknowledged. One process writes it. Whoever did before
 * may have been killed within a write, or had no room for all of it, so a batch is believed only
 * where the whole of it is there. No nginx and no clock in here. */
#pragma once

#include "services/edge/events/ring.h"

#include <sys/types.h>

typedef struct spool {
    int file;    /* -1: none is open */
    off_t end;   /* of its last whole batch */
    off_t sent;  /* up to here they were sent */
    off_t acked; /* and acknowledged */
    unsigned owner;
} spool_t;

/* Use this open file, of the worker of that number. What is behind its last whole batch is cut
 * off: else the next one would be read as the rest of that. 0, and how many bytes that was |
 * -errno: the file is of no use. */
int spool_attach(spool_t *self, int file, unsigned owner, off_t *ret_cut);

/* The head of the batch at this place. 1 | 0: no whole batch is there | -errno */
int spool_read(const spool_t *self, off_t at, ring_spooled_t *ret_head);

/* Where the batch that has this head and this place ends. */
off_t spool_behind(off_t at, const ring_spooled_t *head);

/* The whole of a batch that this worker made or nothing of it, in a file of at most max bytes.
 * 0 | -EFBIG | -errno of the write. */
int spool_append(spool_t *self, const ring_spooled_t *head, unsigned worker, const void *data,
                 off_t max);

/* Who made the batch that has this head. */
unsigned spool_worker(const spool_t *self, const ring_spooled_t *head);

/* Append the batch that the spool of another worker has at *at, and go to the one behind it. 1 |
 * 0: it has no whole one there | -errno: it could not be read, or finds no room here. */
int spool_copy(spool_t *self, int from, unsigned owner, off_t *at, off_t max);

/* Empty it when everything in it is acknowledged, and cut it behind its last batch. 0 | -errno */
int spool_trim(spool_t *self);
