/* The events of batches that are stored go to subscribers, in the order of the batches; then each
 * batch's producer is told what became of it. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/events/intake_internal.h"
#include "services/events/topics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PUBLISH_STEP = 16, /* records between two looks at the clock */
    ANSWER_FRAMES = 5  /* of a batch in the store's answer */
};

/* Use the layout of the values that follow: nearly always the same as in the batch before. 0 |
 * -EBADMSG | -ENOMEM. */
static int take_layout(intake_t *self, const record_t *record)
{
    if (layout_is(self->layout, record->body, record->body_len))
        return 0;
    layout_destroy(&self->layout);
    return layout_new(&self->layout, record->body, record->body_len);
}

/* Publish one event of a batch. 0 | -EBADMSG | -EAGAIN. */
static int publish_record(intake_t *self, const record_t *record, int64_t number)
{
    const char *topic = record->topic;
    size_t topic_len = record->topic_len;
    const void *envelope = record->body;
    size_t len = record->body_len;

    if (record->kind == RECORD_VALUES) {
        int r = -EBADMSG;

        self->envelope.size = 0;
        if (self->layout)
            r = layout_envelope(self->layout, record->body, record->body_len, &self->envelope);
        if (r)
            return r;
        topic = layout_topic(self->layout, &topic_len);
        envelope = self->envelope.data;
        len = self->envelope.size;
    }
    return feed_send(self->feed, topic, topic_len, envelope, len, number);
}

static int64_t number_of_event(const publication_t *self)
{
    int64_t number = NUMBER_NOT_PUBLISHED;

    if (zframe_size(self->numbers) >= sizeof(number) * (self->events + 1))
        memcpy(&number, zframe_data(self->numbers) + sizeof(number) * self->events, sizeof(number));
    return number;
}

/* Publish the rest of the current batch. 0 | -EAGAIN: a subscriber's queue is full | -EINPROGRESS:
 * until_ms has passed. */
static int publish_batch(intake_t *self, int64_t until_ms)
{
    publication_t *now = &self->publication;
    size_t offset = now->offset;
    record_t record;

    while (batch_next(zframe_data(now->body), zframe_size(now->body), &offset, &record) == 1) {
        if (++self->steps % PUBLISH_STEP == 0 && bus_mono_ms() >= until_ms)
            return -EINPROGRESS;
        if (record.kind == RECORD_LAYOUT) {
            /* after an error there is no layout, and the values behind it count as unreadable */
            (void)take_layout(self, &record);
        } else {
            int64_t number = number_of_event(now);
            int r = number == NUMBER_NOT_PUBLISHED ? 0 : publish_record(self, &record, number);

            if (r == -EAGAIN)
                return r;
            now->unreadable += r != 0;
            now->events++;
        }
        now->offset = offset;
    }
    self->metrics.unreadable += now->unreadable;
    if (now->unreadable)
        log_warn("%" PRIu64 " events of a batch cannot be decoded", now->unreadable);
    return 0;
}

/* Take the next batch out of the store's answer. False: there is none. */
static bool next_publication(intake_t *self)
{
    publication_t *next = &self->publication;
    _cleanup_(free_mem) char *verdict = NULL;

    if (!self->answer || zmsg_size(self->answer) < ANSWER_FRAMES) {
        zmsg_destroy(&self->answer);
        return false;
    }
    *next = (publication_t){.identity = zmsg_pop(self->answer),
                            .header = zmsg_pop(self->answer),
                            .body = zmsg_pop(self->answer)};
    verdict = zmsg_popstr(self->answer);
    next->numbers = zmsg_pop(self->answer);
    snprintf(next->verdict, sizeof(next->verdict), "%s", verdict);
    return true;
}

static void send_acknowledgement(intake_t *self, zframe_t *identity, zframe_t *header, bool bad)
{
    batch_t batch;

    if (!batch_header(zframe_data(header), zframe_size(header), &batch))
        intake_acknowledge(self, identity, &batch, bad);
}

static void free_publication(publication_t *self)
{
    zframe_destroy(&self->identity);
    zframe_destroy(&self->header);
    zframe_destroy(&self->body);
    zframe_destroy(&self->numbers);
}

/* Tell the batch's producer what became of it. */
static void end_publication(intake_t *self)
{
    publication_t *done = &self->publication;
    bool bad = !strcmp(done->verdict, "bad");

    self->metrics.repeated += !strcmp(done->verdict, "old");
    self->metrics.bad += bad;
    if (!strcmp(done->verdict, "early"))
        intake_tell(self, done->identity, "resend");
    else if (strcmp(done->verdict, "stop"))
        send_acknowledgement(self, done->identity, done->header, bad);
    free_publication(done);
}

bool intake_is_publishing(const intake_t *self)
{
    return self->publication.body != NULL;
}

int intake_publish(intake_t *self, int64_t until_ms)
{
    while (intake_is_publishing(self) || next_publication(self)) {
        int r = strcmp(self->publication.verdict, "new") ? 0 : publish_batch(self, until_ms);

        if (r)
            return r;
        end_publication(self);
    }
    return 0;
}

void intake_publish_done(intake_t *self)
{
    free_publication(&self->publication);
    zmsg_destroy(&self->answer);
    layout_destroy(&self->layout);
    msgpack_sbuffer_destroy(&self->envelope);
}
