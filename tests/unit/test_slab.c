/* The table's memory: zeroed, aligned, nobody else's. */
#include "services/edge/table/slab.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 5000 };

static bool all(const unsigned char *at, size_t n, unsigned char byte)
{
    while (n && *at == byte)
        at++, n--;
    return n == 0;
}

Test(slab, blocks_are_zeroed_aligned_and_apart)
{
    static unsigned char *blocks[COUNT];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = slab_alloc(i);
            cr_assert_eq((uintptr_t)blocks[i] % 16, 0, "%zu bytes", i);
            cr_assert(all(blocks[i], i, 0), "%zu bytes of somebody else's", i);
            memset(blocks[i], (int)(i % 255 + 1), i);
        }
        for (size_t i = 0; i < COUNT; i++) {
            cr_assert(all(blocks[i], i, (unsigned char)(i % 255 + 1)), "%zu bytes overwritten", i);
            slab_free(blocks[i]);
        }
    }
    slab_free(NULL);
}

#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory back */
Test(slab, a_freed_block_serves_the_next_of_its_size)
{
    void *first = slab_alloc(100), *second;

    slab_free(first);
    second = slab_alloc(101);
    cr_assert_eq(first, second);
    cr_assert_neq(slab_alloc(101), second);
}

static size_t resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    cr_assert(file && fscanf(file, "%*u %zu", &pages) == 1);
    fclose(file);
    return pages;
}

/* 8 MB, twice: the second time there are survivors, which keep what is around them. */
Test(slab, memory_around_which_all_is_free_goes_back_to_the_kernel)
{
    enum { MANY = 40000, SIZE = 200, APART = 4000 };
    static unsigned char *blocks[MANY];
    size_t before, full;

    memset(blocks, 1, sizeof(blocks));
    before = resident_pages();
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++) {
            blocks[i] = slab_alloc(SIZE + i % 7);
            memset(blocks[i], (int)(i % 255 + 1), SIZE);
        }
        full = resident_pages();
        cr_assert_geq(full - before, 1500);
        for (size_t i = 0; i < MANY; i++)
            if (!round || i % APART)
                slab_free(blocks[i]);
        cr_assert_leq(resident_pages() - before, (full - before) / 4);
    }
    for (size_t i = 0; i < MANY; i += APART)
        cr_assert(all(blocks[i], SIZE, (unsigned char)(i % 255 + 1)), "a survivor is as it was");
    for (size_t i = 0; i < MANY; i++)
        if (i % APART)
            blocks[i] = slab_alloc(SIZE);
    for (size_t i = 0; i < MANY; i += APART)
        cr_assert(all(blocks[i], SIZE, (unsigned char)(i % 255 + 1)), "also behind new ones");
}
#endif
