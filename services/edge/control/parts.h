/* A message of a log that came in parts, made whole again (proto/WIRE.md): so that no
 * message takes long over a slow link, and what comes between says that the other end lives. One
 * for each copy. No sockets and no nginx in here. */
#pragma once

#include "services/edge/control/merge.h"

enum { PARTS_FRAMES = 7 }; /* of a message whose body came in parts: the last is how long it is */

typedef struct parts {
    char *data; /* the parts of one body that came until now */
    size_t len, room;
} parts_t;

typedef enum parts_step {
    PARTS_PASS, /* the message is whole, now or from the beginning: its frames are what it says */
    PARTS_WAIT, /* it is one part, and kept */
    PARTS_LOST  /* a part is missing, or there is no memory: it cannot be told what it says */
} parts_step_t;

/* Frames that are replaced are valid until the next message. */
parts_step_t parts_take(parts_t *self, merge_frame_t *frames, size_t *n);
void parts_clear(parts_t *self);
