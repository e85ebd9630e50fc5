#include "services/events/batch.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "common/codec/token.h"
#include "common/schema/event_types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_MAX = 1024, FIELDS_MAX = 16, TOPIC_MAX = 96, ID_MAX_BYTES = 128 };
enum { LAYOUT = 0, VALUES = 255 }; /* record kinds that are no topic's length */

static int64_t number_of(const json_t *header, const char *key)
{
    const json_t *value = json_object_get(header, key);

    /* A 64-bit number may come as text: not every producer's encoder has that integer. */
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                                 : json_integer_value(value);
}

/* Read the names and numbers of a header that cannot be used otherwise, so that its sender can be
 * answered. */
static int read_name(const json_t *header, batch_t *ret_batch)
{
    const char *producer = json_string_value(json_object_get(header, "producer"));
    const char *family = json_string_value(json_object_get(header, "family"));
    int64_t seq = number_of(header, "seq");

    if (!producer || !*producer || strlen(producer) >= sizeof(ret_batch->producer) || !family
        || seq < 1)
        return -EBADMSG;
    if (strcmp(family, "audit") && strcmp(family, "traffic"))
        return -EBADMSG;
    memcpy(ret_batch->producer, producer, strlen(producer) + 1);
    ret_batch->audit = !strcmp(family, "audit");
    ret_batch->seq = seq;
    ret_batch->oldest = json_is_true(json_object_get(header, "oldest"));
    return 0;
}

/* Is this a map of few fields whose values hold nothing else? A larger one is not decoded at
 * all. */
static bool is_flat(const void *data, size_t len)
{
    token_reader_t in = {.at = data, .end = (const unsigned char *)data + len};
    token_t token;
    size_t left;

    if (len > HEADER_MAX || token_next(&in, &token) || token.kind != TOKEN_MAP
        || token.len > FIELDS_MAX)
        return false;
    for (left = 2 * token.len; left > 0; left--)
        if (token_next(&in, &token) || token.kind == TOKEN_ARRAY || token.kind == TOKEN_MAP)
            return false;
    return true;
}

int batch_header(const void *data, size_t len, batch_t *ret_batch)
{
    _cleanup_(json_clear_ref) json_t *header = NULL;
    const char *memory;

    memset(ret_batch, 0, sizeof(*ret_batch));
    if (!is_flat(data, len) || unpack_json(data, len, &header) || !json_is_object(header)
        || read_name(header, ret_batch))
        return -EBADMSG;
    ret_batch->count = number_of(header, "count");
    ret_batch->dropped = number_of(header, "dropped");
    memory = json_string_value(json_object_get(header, "memory"));
    if (memory && strlen(memory) >= sizeof(ret_batch->memory))
        return -EBADMSG;
    if (memory) {
        memcpy(ret_batch->memory, memory, strlen(memory) + 1);
        ret_batch->body = number_of(header, "body");
        ret_batch->len = number_of(header, "len");
        ret_batch->tail = number_of(header, "tail");
        ret_batch->at = number_of(header, "at");
    }
    if (ret_batch->seq > BATCH_NUMBER_MAX || ret_batch->count < 0
        || ret_batch->count > EVENT_BATCH_MAX || ret_batch->dropped < 0
        || ret_batch->dropped > ret_batch->seq)
        return -EBADMSG;
    return 0;
}

int batch_next(const unsigned char *data, size_t len, size_t *offset, record_t *ret_record)
{
    const unsigned char *at = data + *offset;
    size_t left = len - *offset, topic_len = 0, body_len;

    if (left == 0)
        return 0;
    if (left < 5)
        return -EBADMSG;
    ret_record->kind = at[0] == LAYOUT   ? RECORD_LAYOUT
                       : at[0] == VALUES ? RECORD_VALUES
                                         : RECORD_EVENT;
    if (ret_record->kind == RECORD_EVENT)
        topic_len = at[0];
    body_len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (topic_len > TOPIC_MAX || left - 5 < topic_len || left - 5 - topic_len < body_len)
        return -EBADMSG;
    ret_record->topic = (const char *)at + 5;
    ret_record->topic_len = topic_len;
    ret_record->body = at + 5 + topic_len;
    ret_record->body_len = body_len;
    *offset += 5 + topic_len + body_len;
    return 1;
}

int batch_check(const unsigned char *data, size_t len, int64_t count)
{
    record_t record;
    size_t offset = 0;
    bool layout = false;
    int64_t n = 0;
    int r;

    while ((r = batch_next(data, len, &offset, &record)) == 1) {
        if (record.kind == RECORD_VALUES && !layout)
            return -EBADMSG;
        layout |= record.kind == RECORD_LAYOUT;
        n += record.kind != RECORD_LAYOUT;
    }
    return r || n != count ? -EBADMSG : 0;
}

/* The envelope's own event_type must be the record's topic. */
static bool is_topic(const json_t *type, const record_t *record)
{
    return json_string_length(type) == record->topic_len
           && !memcmp(json_string_value(type), record->topic, record->topic_len);
}

/* A traffic event has no principal, because no caller of the API caused it, and no sequence, which
 * postern-events gives it. */
static bool is_traffic_event(const record_t *record)
{
    _cleanup_(json_clear_ref) json_t *event = NULL;
    const json_t *principal;

    if (!event_type_is_traffic(record->topic, record->topic_len)
        || unpack_json(record->body, record->body_len, &event) || !json_is_object(event))
        return false;
    principal = json_object_get(event, "principal");
    return json_is_string(json_object_get(event, "event_type"))
           && is_topic(json_object_get(event, "event_type"), record)
           && (!principal || json_is_null(principal)) && !json_object_get(event, "sequence");
}

int batch_traffic(const unsigned char *data, size_t len)
{
    record_t record;
    size_t offset = 0;
    int r;

    while ((r = batch_next(data, len, &offset, &record)) == 1) {
        const char *end =
            record.kind == RECORD_LAYOUT ? memchr(record.body, '\n', record.body_len) : NULL;

        if (record.kind == RECORD_LAYOUT
            && !event_type_is_traffic((const char *)record.body,
                                      end ? (size_t)(end - (const char *)record.body)
                                          : record.body_len))
            return -EBADMSG;
        if (record.kind == RECORD_EVENT && !is_traffic_event(&record))
            return -EBADMSG;
    }
    return r;
}

/* PostgreSQL's jsonb cannot hold U+0000. */
static bool has_nul(const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_string(value))
        return strlen(json_string_value(value)) != json_string_length(value);
    json_array_foreach(value, i, item) if (has_nul(item)) return true;
    json_object_foreach((json_t *)value, key, item) if (has_nul(item)) return true;
    return false;
}

/* A short string of visible ASCII: such values stand in indexes and log lines. */
static bool is_word(const json_t *value, size_t max)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0 && len <= max;
}

static bool is_envelope(const json_t *event)
{
    return is_word(json_object_get(event, "event_id"), ID_MAX_BYTES)
           && is_word(json_object_get(event, "event_type"), TOPIC_MAX)
           && is_word(json_object_get(event, "account_id"), ID_MAX_BYTES)
           && !json_object_get(event, "sequence") && !has_nul(event);
}

/* The service whose outbox the producer is; "": it is no service's. */
static const char *service_of(const batch_t *batch)
{
    static const char prefix[] = "outbox/";

    return strncmp(batch->producer, prefix, strlen(prefix)) ? "" : batch->producer + strlen(prefix);
}

int batch_audit(const batch_t *batch, const unsigned char *data, size_t len, json_t **ret_events)
{
    _cleanup_(json_clear_ref) json_t *events = json_array();
    record_t record;
    size_t offset = 0;
    int r;

    while ((r = batch_next(data, len, &offset, &record)) == 1) {
        json_t *event = NULL;
        const json_t *type;

        if (record.kind != RECORD_EVENT || unpack_json(record.body, record.body_len, &event)
            || json_array_append_new(events, event) || !is_envelope(event))
            return -EBADMSG;
        type = json_object_get(event, "event_type");
        if (!is_topic(type, &record)
            || !event_type_is_of(json_string_value(type), service_of(batch)))
            return -EBADMSG;
    }
    if (r)
        return r;
    *ret_events = take(events);
    return 0;
}
