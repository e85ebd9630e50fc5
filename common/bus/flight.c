#include "common/bus/flight.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"

#include <stdio.h>
#include <string.h>

enum {
    HEADER_MAX = 4096, /* bytes; larger than any header that our clients send */
    VERB_MAX = 63
};

struct flights {
    zhashx_t *senders; /* key -> identity of the last repetition's sender; empty: not repeated */
    size_t max;
};

static void destroy_sender(void **item)
{
    zframe_destroy((zframe_t **)item);
}

flights_t *flights_new(size_t max)
{
    flights_t *self = calloc(1, sizeof(*self));

    if (!self || !(self->senders = zhashx_new())) {
        free(self);
        return NULL;
    }
    zhashx_set_destructor(self->senders, destroy_sender);
    self->max = max;
    return self;
}

void flights_destroy(flights_t **self_p)
{
    if (!*self_p)
        return;
    zhashx_destroy(&(*self_p)->senders);
    free(*self_p);
    *self_p = NULL;
}

/* Copy a text of the header. False: there is none, or it is empty or longer than size - 1 bytes. */
static bool copy_field(const json_t *header, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(header, name));

    if (!text || !*text || strlen(text) >= size)
        return false;
    snprintf(out, size, "%s", text);
    return true;
}

/* id, and where account is not NULL the account that the sender speaks for, "" for none. */
static bool read_header(zmsg_t *msg, char id[FLIGHT_ID_SIZE], char *account)
{
    zframe_t *sender = zmsg_first(msg), *verb = sender ? zmsg_next(msg) : NULL,
             *head = verb ? zmsg_next(msg) : NULL;
    _cleanup_(json_clear_ref) json_t *header = NULL;

    if (!head || zframe_size(head) > HEADER_MAX || zframe_size(verb) > VERB_MAX
        || frame_json(head, &header))
        return false;
    if (account && !copy_field(header, "account", account, FLIGHT_ACCOUNT_SIZE))
        *account = '\0';
    return copy_field(header, "id", id, FLIGHT_ID_SIZE);
}

bool flight_id(zmsg_t *msg, char id[FLIGHT_ID_SIZE])
{
    return read_header(msg, id, NULL);
}

bool flight_key(zmsg_t *msg, char key[FLIGHT_KEY_SIZE], char account[FLIGHT_ACCOUNT_SIZE])
{
    char id[FLIGHT_ID_SIZE];
    zframe_t *verb;

    if (!read_header(msg, id, account))
        return false;
    (void)zmsg_first(msg);
    verb = zmsg_next(msg);
    snprintf(key, FLIGHT_KEY_SIZE, "%.*s %s", (int)zframe_size(verb),
             (const char *)zframe_data(verb), id);
    return true;
}

bool flights_again(flights_t *self, const char *key, zframe_t *sender)
{
    if (!zhashx_lookup(self->senders, key))
        return false;
    zhashx_update(self->senders, key, zframe_dup(sender));
    return true;
}

void flights_begin(flights_t *self, const char *key)
{
    if (zhashx_size(self->senders) < self->max)
        zhashx_update(self->senders, key, zframe_new_empty());
}

zframe_t *flights_end(flights_t *self, const char *key)
{
    zframe_t *sender = zhashx_lookup(self->senders, key);
    zframe_t *again = sender && zframe_size(sender) ? zframe_dup(sender) : NULL;

    zhashx_delete(self->senders, key);
    return again;
}
