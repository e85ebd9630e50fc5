/* Whose connections there are, and what each owner has of the gateway: connections, calls at
 * services, bytes of answers. The owner of a connection is the account that showed a valid key on
 * it last, until then the address that it came from. No sockets in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct owner {
    char name[64];
    size_t references;
    size_t connections; /* open ones */
    size_t calls;       /* that are at a service */
    size_t unread;      /* bytes of answers that its clients have not taken yet */
} owner_t;

typedef struct owners owners_t;

/* For so many calls in all. */
owners_t *owners_new(size_t calls_max);
void owners_destroy(owners_t **self_p);

/* The owner of that name, with one more reference; owners_leave gives it back. */
owner_t *owners_join(owners_t *self, const char *name);
void owners_leave(owners_t *self, owner_t **owner_p);

/* Take a place for one more call. An owner has at most as many as are free then: alone it gets half
 * of all, with another one each gets a third, so that there is always room for one who comes new.
 * False: it has its share. owners_end_call gives a place back. */
bool owners_begin_call(owners_t *self, owner_t *owner);
void owners_end_call(owners_t *self, owner_t *owner);

/* Bytes of answers that begin or end to wait for their client. */
void owners_add_unread(owners_t *self, owner_t *owner, size_t bytes);
void owners_take_unread(owners_t *self, owner_t *owner, size_t bytes);

/* The sum of all owners' bytes. */
size_t owners_unread(const owners_t *self);
