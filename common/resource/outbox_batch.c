#include "common/resource/outbox_batch.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

void outbox_batch_init(outbox_batch_t *self, int64_t now_ms)
{
    *self = (outbox_batch_t){.number =
                                 1000 * now_ms}; /* no process sends 1,000 batches a millisecond */
}

void outbox_batch_begin(outbox_batch_t *self, const int *bytes, int n)
{
    int64_t sum = 0;

    self->number++;
    self->rows = n;
    for (self->count = 0; self->count < n; self->count++) {
        sum += bytes[self->count];
        if (self->count > 0 && (self->alone || sum > OUTBOX_BATCH_BYTES))
            return;
    }
}

bool outbox_batch_end(outbox_batch_t *self)
{
    bool all = self->count == self->rows && self->rows < OUTBOX_BATCH_MAX;

    if (self->alone)
        self->alone--;
    self->count = 0;
    return self->alone || !all;
}

bool outbox_batch_refuse(outbox_batch_t *self)
{
    if (self->count == 1)
        return true;
    self->alone = self->count + 1; /* + 1: outbox_batch_end counts this attempt, too */
    return false;
}

void outbox_batch_drop(outbox_batch_t *self)
{
    self->count = 0;
}

int outbox_batch_add(const char *text, msgpack_sbuffer *body)
{
    _cleanup_(json_clear_ref) json_t *event = json_loads(text, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "event_type"));
    unsigned char lengths[5];
    msgpack_sbuffer one;
    int r;

    if (!type || !*type || strlen(type) > OUTBOX_TYPE_MAX)
        return -EBADMSG;
    msgpack_sbuffer_init(&one);
    r = pack_json(&one, event);
    if (r && r != -ENOMEM)
        r = -EBADMSG;
    if (!r) {
        lengths[0] = (unsigned char)strlen(type);
        for (int b = 0; b < 4; b++)
            lengths[1 + b] = (unsigned char)(one.size >> (24 - 8 * b));
        msgpack_sbuffer_write(body, (char *)lengths, 5);
        msgpack_sbuffer_write(body, type, strlen(type));
        msgpack_sbuffer_write(body, one.data, one.size);
    }
    msgpack_sbuffer_destroy(&one);
    return r;
}
