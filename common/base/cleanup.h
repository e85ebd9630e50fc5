/* Declared ownership: _cleanup_(f) frees at scope exit, take(p) moves out and leaves NULL. */
#pragma once

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

#define take(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void free_mem(void *address)
{
    void **p = address;

    free(*p);
    *p = NULL;
}

static inline void json_clear_ref(json_t **p)
{
    json_decref(*p);
    *p = NULL;
}

static inline void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
