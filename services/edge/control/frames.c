#include "services/edge/control/frames.h"

#include "common/base/invariant.h"

#include <string.h>

bool frames_read(unsigned char *data, size_t len, frames_head_t *ret_head,
                 frame_t ret_frames[FRAMES_MAX])
{
    size_t at = sizeof(*ret_head);

    if (len < at)
        return false;
    memcpy(ret_head, data, at);
    if (ret_head->n > FRAMES_MAX)
        return false;
    for (uint32_t i = 0; i < ret_head->n; i++) {
        if (ret_head->lens[i] > len - at)
            return false;
        ret_frames[i] = (frame_t){data + at, ret_head->lens[i]};
        at += ret_head->lens[i];
        INVARIANT(at <= len);
    }
    return true;
}
