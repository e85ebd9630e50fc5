#include "services/events/topics.h"
#include "common/schema/event_types.h"
#include "services/events/batch.h"

#include <string.h>

topic_t *topics_find(topics_t *self, const char *name, size_t len)
{
    topic_t *topic = &self->all[self->n];
    bool traffic;

    for (int i = 0; i < self->n; i++)
        if (strlen(self->all[i].name) == len && !memcmp(self->all[i].name, name, len))
            return &self->all[i];
    if (self->n == TOPICS_MAX || len > TOPIC_MAX || memchr(name, '\0', len))
        return NULL;
    memcpy(topic->name, name, len);
    topic->name[len] = '\0';
    topic->last = 0;
    if (!event_type_known(topic->name, &traffic))
        return NULL;
    self->n++;
    return topic;
}

/* The next event of the body and its topic; the topic of values is the first line of their
 * layout. */
static bool next_event(topics_t *self, const unsigned char *body, size_t len, size_t *offset,
                       topic_t **topic_of_values, topic_t **ret_topic)
{
    record_t record;

    while (batch_next(body, len, offset, &record) == 1) {
        const char *text = (const char *)record.body;
        const char *end = record.body_len ? memchr(text, '\n', record.body_len) : NULL;

        if (record.kind == RECORD_LAYOUT) {
            *topic_of_values =
                topics_find(self, text, end ? (size_t)(end - text) : record.body_len);
            continue;
        }
        *ret_topic = record.kind == RECORD_VALUES
                         ? *topic_of_values
                         : topics_find(self, record.topic, record.topic_len);
        return true;
    }
    return false;
}

void topics_gather(topics_t *self, const unsigned char *body, size_t len)
{
    topic_t *of_values = NULL, *topic;
    size_t offset = 0;

    while (next_event(self, body, len, &offset, &of_values, &topic))
        continue;
}

void topics_number(topics_t *self, const unsigned char *body, size_t len, int64_t *numbers)
{
    topic_t *of_values = NULL, *topic;
    size_t offset = 0;

    for (size_t i = 0; next_event(self, body, len, &offset, &of_values, &topic); i++)
        if (numbers[i] != NUMBER_NOT_PUBLISHED)
            numbers[i] = topic ? ++topic->last : NUMBER_NONE;
}
