/* Messages between a worker and its helper: whatever the bytes are, what is taken for a frame lies
 * in them, behind the one before it. */
#include "services/edge/control/frames.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size + !size), *end = bytes + sizeof(frames_head_t);
    frame_t frames[FRAMES_MAX];
    frames_head_t head;

    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    if (frames_read(bytes, size, &head, frames)) {
        if (head.n > FRAMES_MAX)
            abort();
        for (uint32_t i = 0; i < head.n; i++) {
            if (frames[i].data != end || frames[i].len != head.lens[i])
                abort();
            end += frames[i].len;
            if (end > bytes + size)
                abort();
        }
    }
    free(bytes);
    return 0;
}
