#include "common/resource/retry.h"

unsigned retry_pause_us(unsigned tries, uint32_t chance)
{
    unsigned most_ms = RETRY_FIRST_MS;

    while (tries-- && most_ms < RETRY_MS)
        most_ms *= 2;
    if (most_ms > RETRY_MS)
        most_ms = RETRY_MS;
    return 1 + chance % (most_ms * 1000);
}
