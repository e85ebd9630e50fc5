#include "services/edge/table/slab.h"

#include "common/base/invariant.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__ /* which watches malloc's blocks one by one */

void *slab_alloc(size_t size)
{
    void *at = calloc(1, size);

    return at ? at : (abort(), NULL);
}

void slab_free(void *at)
{
    free(at);
}

#else

enum {
    UNIT = 16,
    SMALLEST = 2,      /* units of a block: while it is free it has two links */
    CLASSES = 256,     /* blocks of up to 255 units; larger ones are malloc's */
    REGION = 128 << 10 /* from the kernel at once, and back; its address is a multiple of that */
};

/* Blocks of all sizes, as they were asked for: what belongs together lies together. */
typedef struct region {
    size_t used; /* blocks that are not free */
    size_t end;  /* of those that were ever taken */
} region_t;

typedef struct block {
    size_t class;              /* units, this head included; 0: malloc's */
    struct block *next, *last; /* while it is free; the user's otherwise */
} block_t;

enum { HEAD = offsetof(block_t, next), FIRST = sizeof(region_t) + UNIT - HEAD };

static block_t *freed[CLASSES];
static region_t *current; /* whose rest serves what no freed block does */

static region_t *region_of(const void *block)
{
    return (region_t *)((uintptr_t)block & ~(uintptr_t)(REGION - 1));
}

/* The kernel aligns to pages only: what was asked for too much goes back. Small pages: a huge one
 * costs milliseconds when it is first touched. */
static region_t *new_region(void)
{
    unsigned char *at =
        mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;
    region_t *region;

    if (at == MAP_FAILED)
        abort();
    before = (size_t)(-(uintptr_t)at & (REGION - 1));
    if (before)
        munmap(at, before);
    munmap(at + before + REGION, REGION - before);
    region = (region_t *)(at + before);
    region->end = FIRST;
    return region;
}

static void push_freed(block_t *block)
{
    block_t **list = &freed[block->class];

    block->last = NULL;
    block->next = *list;
    if (*list)
        (*list)->last = block;
    *list = block;
}

static void unlink_block(block_t *block)
{
    INVARIANT(block->last ? block->last->next == block : freed[block->class] == block);
    if (block->last)
        block->last->next = block->next;
    else
        freed[block->class] = block->next;
    if (block->next)
        block->next->last = block->last;
}

/* All of its blocks are free. */
static void give_back(region_t *region)
{
    unsigned char *at = (unsigned char *)region + FIRST,
                  *end = (unsigned char *)region + region->end;

    while (at < end) {
        block_t *block = (block_t *)at;

        INVARIANT(block->class >= SMALLEST && block->class < CLASSES);
        at += block->class * UNIT;
        unlink_block(block);
    }
    munmap(region, REGION);
}

/* What is left of the region before is less than a block, and it has no other use. */
static block_t *take_fresh(size_t class)
{
    region_t *before = current;
    block_t *block;

    if (!current || REGION - current->end < class * UNIT) {
        current = new_region();
        if (before && !before->used)
            give_back(before);
    }
    block = (block_t *)((unsigned char *)current + current->end);
    current->end += class * UNIT;
    INVARIANT(current->end <= REGION);
    return block;
}

static block_t *take_block(size_t class)
{
    block_t *block = freed[class];

    if (block)
        unlink_block(block);
    else
        block = take_fresh(class);
    region_of(block)->used++;
    return block;
}

void *slab_alloc(size_t size)
{
    size_t class = size / UNIT + (size % UNIT + HEAD + UNIT - 1) / UNIT;
    unsigned char *large;
    block_t *block;

    if (class >= CLASSES) {
        large = size < SIZE_MAX - UNIT ? calloc(1, size + UNIT) : NULL;
        return large ? large + UNIT : (abort(), NULL);
    }
    if (class < SMALLEST)
        class = SMALLEST;
    block = take_block(class);
    block->class = class;
    return memset(&block->next, 0, class * UNIT - HEAD);
}

void slab_free(void *at)
{
    region_t *region;
    block_t *block;

    if (!at)
        return;
    block = (block_t *)((unsigned char *)at - HEAD);
    if (!block->class) {
        free((unsigned char *)at - UNIT);
        return;
    }
    region = region_of(block);
    INVARIANT(block->class >= SMALLEST && block->class < CLASSES && region->used > 0);
    push_freed(block);
    if (--region->used == 0 && region != current)
        give_back(region);
}

#endif
