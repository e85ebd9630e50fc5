#include "services/gateway/body.h"
#include "common/base/err.h"
#include "common/base/invariant.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096 };

/* realloc would leave the old bytes on the heap. */
static int body_grow(body_t *self, size_t size)
{
    char *grown = malloc(size);

    if (!grown)
        return ERR_BODY_TOO_LARGE;
    if (self->bytes) {
        memcpy(grown, self->bytes, self->len);
        explicit_bzero(self->bytes, self->len);
        free(self->bytes);
    }
    self->bytes = grown;
    self->size = size;
    return 0;
}

int body_add(body_t *self, const char *data, size_t len)
{
    size_t size = self->size ? self->size : FIRST_BYTES;
    int r = 0;

    INVARIANT(self->len <= self->size && self->len <= BODY_MAX);
    if (len > BODY_MAX - self->len)
        return ERR_BODY_TOO_LARGE;
    while (size < self->len + len)
        size *= 2;
    if (size != self->size)
        r = body_grow(self, size);
    if (r)
        return r;
    INVARIANT(len <= self->size - self->len);
    memcpy(self->bytes + self->len, data, len);
    self->len += len;
    return 0;
}

void body_done(body_t *self)
{
    if (self->bytes)
        explicit_bzero(self->bytes, self->len);
    free(self->bytes);
    *self = (body_t){0};
}
