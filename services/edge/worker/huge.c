#include "services/edge/worker/huge.h"

#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; glibc's headers have it from 2.37 on */
#endif

void *huge_align(void *memory)
{
    return (void *)(((uintptr_t)memory + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
}

/* The kernel makes huge pages of shared memory by itself only where an administrator has told it to
 * (shmem_enabled), but asked for these at once it does so (madvise(2), MADV_COLLAPSE), where
 * some of them is there. They have to be a mapping of their own: in one that begins elsewhere, as
 * nginx's zones do, no huge page of the memory behind it stands at such an address. */
bool huge_map(void *begin, size_t bytes)
{
    unsigned char *page = begin;
    size_t whole = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;

    if (!whole)
        return true;
    if (mmap(begin, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
        == MAP_FAILED)
        return false;
    for (size_t at = 0; at < whole; at += HUGE_PAGE_BYTES)
        ((volatile unsigned char *)page)[at] = 0;
    (void)madvise(begin, whole, MADV_COLLAPSE);
    return true;
}
