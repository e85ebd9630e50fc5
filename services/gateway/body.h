/* A request's body while it arrives: bounded, and wiped when it is moved or freed, because it may
 * contain a private key. No sockets. */
#pragma once

#include <stddef.h>

enum { BODY_MAX = 1 << 20 /* bytes */ };

/* All zeros: empty; body_done makes it empty again. */
typedef struct body {
    char *bytes; /* NULL: nothing has come */
    size_t len, size;
} body_t;

/* Add the next len bytes. 0 | ERR_BODY_TOO_LARGE, also where there is no memory for them: then the
 * body is as it was. */
int body_add(body_t *self, const char *data, size_t len);

/* Wipe and free. */
void body_done(body_t *self);
