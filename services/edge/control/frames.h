/* A message of the link between a worker and its helper as bytes: a head with the kind and the
 * frames' lengths, then the frames. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMES_MAX = 8 };

typedef struct frames_head {
    uint32_t kind, n;
    uint32_t lens[FRAMES_MAX];
} frames_head_t;

typedef struct frame {
    unsigned char *data;
    size_t len;
} frame_t;

/* The frames lie in data. False: these bytes are no message. */
bool frames_read(unsigned char *data, size_t len, frames_head_t *ret_head,
                 frame_t ret_frames[FRAMES_MAX]);
