#include "slab.h"

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
    CLASSES = 256,   /* blocks of 1 to 255 units; larger ones are malloc's */
    REGION = 1 << 20 /* from the kernel at once */
};

typedef struct block {
    size_t class;       /* units, this head included; 0: malloc's */
    struct block *next; /* while it is free; the user's otherwise */
} block_t;

enum { HEAD = offsetof(block_t, next) };

static block_t *freed[CLASSES];
static unsigned char *fresh; /* the region's rest */
static size_t left;

/* A block's head ends where a unit begins. Small pages: a huge one costs milliseconds when it is first touched. */
static void new_region(void)
{
    fresh = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        abort();
    fresh += UNIT - HEAD;
    left = REGION - UNIT;
}

static block_t *take(size_t class)
{
    block_t *block = freed[class];

    if (block) {
        freed[class] = block->next;
        return block;
    }
    if (left < class * UNIT)
        new_region(); /* the rest was less than a block */
    block = (block_t *)fresh;
    fresh += class * UNIT;
    left -= class * UNIT;
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
    block = take(class);
    block->class = class;
    return memset(&block->next, 0, class * UNIT - HEAD);
}

void slab_free(void *at)
{
    block_t *block;

    if (!at)
        return;
    block = (block_t *)((unsigned char *)at - HEAD);
    if (!block->class) {
        free((unsigned char *)at - UNIT);
        return;
    }
    block->next = freed[block->class];
    freed[block->class] = block;
}

#endif
