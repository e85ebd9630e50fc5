#include "services/edge/control/parts.h"

#include "common/base/invariant.h"
#include "common/codec/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind the word: log id, previous revision, revision. */
enum { BODY = 4, BETWEEN, SIZE, OFFSET = BETWEEN };

static bool is_word(const merge_frame_t *frame, const char *word)
{
    return frame->len == strlen(word) && !memcmp(frame->data, word, frame->len);
}

static bool is_number(const merge_frame_t *frame, size_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%zu", number);
    return is_word(frame, text);
}

void parts_clear(parts_t *self)
{
    free(self->data);
    *self = (parts_t){0};
}

static bool make_room(parts_t *self, size_t more)
{
    size_t room = self->room ? self->room : 256 << 10;
    char *data;

    INVARIANT(self->len <= self->room && self->len <= PACK_BYTES_MAX);
    if (more > PACK_BYTES_MAX - self->len)
        return false;
    while (room < self->len + more)
        room *= 2;
    if (room == self->room)
        return true;
    data = realloc(self->data, room);
    if (!data)
        return false;
    self->data = data;
    self->room = room;
    return true;
}

static bool parts_add(parts_t *self, const merge_frame_t *part)
{
    if (!make_room(self, part->len)) {
        parts_clear(self);
        return false;
    }
    INVARIANT(part->len <= self->room - self->len);
    if (part->len)
        memcpy(self->data + self->len, part->data, part->len);
    self->len += part->len;
    return true;
}

/* A part at offset 0 begins a new body: the sender of an unfinished one could not send its rest. */
static parts_step_t take_part(parts_t *self, const merge_frame_t *frames)
{
    if (is_number(&frames[OFFSET], 0))
        parts_clear(self);
    return is_number(&frames[OFFSET], self->len) && parts_add(self, &frames[BODY]) ? PARTS_WAIT
                                                                                   : PARTS_LOST;
}

static parts_step_t take_last(parts_t *self, merge_frame_t *frames, size_t *n)
{
    if (!is_number(&frames[SIZE], self->len + frames[BODY].len)
        || !parts_add(self, &frames[BODY])) {
        parts_clear(self);
        return PARTS_LOST;
    }
    frames[BODY] = (merge_frame_t){self->data, self->len};
    *n = frames[BETWEEN].len ? BETWEEN + 1 : BETWEEN;
    self->len = 0; /* the next message is another one; the memory is kept until then */
    return PARTS_PASS;
}

parts_step_t parts_take(parts_t *self, merge_frame_t *frames, size_t *n)
{
    if (*n == OFFSET + 1 && is_word(&frames[0], "part"))
        return take_part(self, frames);
    if (*n == PARTS_FRAMES)
        return take_last(self, frames, n);
    if (self->room && !self->len)
        parts_clear(self);
    return PARTS_PASS;
}
