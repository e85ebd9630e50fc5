/* Parts of messages of the config log, whatever a writer says: what passes with a body in parts
 * is exactly as long as it said, and is what came since its offset 0, without a gap; what is
 * kept is never more than a message may have. */
#include "services/edge/control/parts.h"

#include "common/codec/pack.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY = 4, OFFSET = 5, LENGTH = 6, TEXT = 24 };

static void check(bool holds)
{
    if (!holds)
        abort();
}

typedef struct in {
    const uint8_t *at, *end;
} in_t;

static unsigned take(in_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static merge_frame_t take_frame(in_t *in)
{
    size_t len = take(in), left = (size_t)(in->end - in->at);
    merge_frame_t frame = {(const char *)in->at, len < left ? len : left};

    in->at += frame.len;
    return frame;
}

/* What the parts of one body were until now, by what this file knows of them. */
typedef struct truth {
    char *data;
    size_t len;
    bool lost; /* one was missing: nothing of this body may pass */
} truth_t;

static void truth_add(truth_t *self, const merge_frame_t *part)
{
    self->data = realloc(self->data, self->len + part->len + 1);
    check(self->data != NULL);
    if (part->len)
        memcpy(self->data + self->len, part->data, part->len);
    self->len += part->len;
}

static merge_frame_t number(char text[TEXT], size_t value)
{
    return (merge_frame_t){text, (size_t)snprintf(text, TEXT, "%zu", value)};
}

/* A part, at the offset where the body is, or at any other. */
static void say_part(parts_t *parts, truth_t *truth, in_t *in)
{
    char text[TEXT];
    unsigned what = take(in);
    size_t offset = what % 4u == 0 ? 0 : what % 4u == 1 ? take(in) : truth->len, n = OFFSET + 1;
    merge_frame_t frames[MERGE_FRAMES_MAX] = {{"part", 4}, {"L", 1},       {"5", 1},
                                              {"6", 1},    take_frame(in), number(text, offset)};
    parts_step_t step;

    if (offset == 0)
        *truth = (truth_t){.data = truth->data};
    truth->lost = truth->lost || offset != truth->len;
    step = parts_take(parts, frames, &n);
    if (step == PARTS_WAIT) {
        check(offset == truth->len);
        truth_add(truth, &frames[BODY]);
    } else {
        check(step == PARTS_LOST && offset != truth->len);
    }
    check(parts->len <= parts->room && parts->room <= PACK_BYTES_MAX);
}

/* The rest, with how long the body is, or with any other number. */
static void say_last(parts_t *parts, truth_t *truth, in_t *in)
{
    char text[TEXT];
    unsigned what = take(in);
    merge_frame_t rest = take_frame(in), between = take_frame(in);
    size_t whole = what % 4u ? truth->len + rest.len : take(in), n = PARTS_FRAMES;
    merge_frame_t frames[MERGE_FRAMES_MAX] = {{"delta", 5}, {"L", 1}, {"5", 1},           {"6", 1},
                                              rest,         between,  number(text, whole)};

    if (parts_take(parts, frames, &n) == PARTS_PASS) {
        truth_add(truth, &rest);
        check(n == (between.len ? 6 : 5) && frames[BODY].len == truth->len && whole == truth->len);
        check(!truth->len || !memcmp(frames[BODY].data, truth->data, truth->len));
    } else {
        check(whole != truth->len + rest.len);
    }
    *truth = (truth_t){.data = truth->data};
}

/* Frames of bytes: nothing but what they are passes. */
static void say_garbage(parts_t *parts, truth_t *truth, in_t *in)
{
    merge_frame_t frames[MERGE_FRAMES_MAX], said[MERGE_FRAMES_MAX];
    size_t n = take(in) % (MERGE_FRAMES_MAX + 1), count = n;

    for (size_t i = 0; i < n; i++)
        said[i] = frames[i] = take_frame(in);
    if (parts_take(parts, frames, &n) == PARTS_PASS && count != PARTS_FRAMES)
        check(n == count && !memcmp(said, frames, n * sizeof(*frames)));
    parts_clear(parts); /* what it made of them is unknown here */
    *truth = (truth_t){.data = truth->data};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in_t in = {data, data + size};
    parts_t parts = {0};
    truth_t truth = {0};

    while (in.at < in.end) {
        switch (take(&in) % 4u) {
        case 0:
            say_garbage(&parts, &truth, &in);
            break;
        case 1:
            say_last(&parts, &truth, &in);
            break;
        default:
            say_part(&parts, &truth, &in);
        }
    }
    parts_clear(&parts);
    free(truth.data);
    return 0;
}
