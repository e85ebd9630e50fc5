/* libyaml's work for each token grows with the nesting depth, and its loader's for each anchor with
 * the number of anchors. So the text is parsed event by event (the parser reads about a kilobyte
 * ahead), and parsing stops at the first event beyond a bound. */
#include "common/schema/policy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 32, ANCHORS_MAX = 64 };

typedef struct policy {
    int depth;
    bool key_next; /* of the mapping at the top */
    size_t count;
    char *anchors[ANCHORS_MAX];
} policy_t;

static bool phase_known(const char *name)
{
    static const char *const phases[] = {"on_http_request", "on_http_response", "on_tcp_connect",
                                         "inbound",         "outbound",         "enabled"};

    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        if (!strcmp(name, phases[i]))
            return true;
    return false;
}

static bool anchor_known(const policy_t *self, const char *name)
{
    for (size_t i = 0; i < self->count; i++)
        if (!strcmp(self->anchors[i], name))
            return true;
    return false;
}

static const char *take_anchor(policy_t *self, const yaml_char_t *anchor)
{
    const char *name = (const char *)anchor;

    if (!name)
        return NULL;
    if (anchor_known(self, name))
        return "has the same anchor twice";
    if (self->count == ANCHORS_MAX)
        return "has more than 64 anchors";
    if (!(self->anchors[self->count] = strdup(name)))
        return "could not be parsed: out of memory";
    self->count++;
    return NULL;
}

/* The top level must be a mapping whose keys are known phases. name: text of a scalar, NULL for
 * other nodes. */
static const char *take_place(policy_t *self, bool mapping, const char *name)
{
    if (self->depth == 0)
        return mapping ? NULL : "must be a JSON or YAML object";
    if (self->depth > 1)
        return NULL;
    if (self->key_next && (!name || !phase_known(name)))
        return "has a phase that does not exist";
    self->key_next = !self->key_next;
    return NULL;
}

static const char *take_open(policy_t *self, bool mapping, const yaml_char_t *anchor)
{
    const char *why = take_place(self, mapping, NULL);

    if (!why)
        why = take_anchor(self, anchor);
    if (self->depth++ == 0)
        self->key_next = true;
    return !why && self->depth > DEPTH_MAX ? "is nested deeper than 32 levels" : why;
}

static const char *take_scalar(policy_t *self, const yaml_event_t *event)
{
    const char *why = take_place(self, false, (const char *)event->data.scalar.value);

    return why ? why : take_anchor(self, event->data.scalar.anchor);
}

static const char *take_alias(policy_t *self, const yaml_event_t *event)
{
    const char *why = take_place(self, false, NULL);

    if (!why && !anchor_known(self, (const char *)event->data.alias.anchor))
        why = "has an alias without an anchor";
    return why;
}

static const char *take(policy_t *self, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_MAPPING_START_EVENT:
        return take_open(self, true, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_START_EVENT:
        return take_open(self, false, event->data.sequence_start.anchor);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        self->depth--;
        return NULL;
    case YAML_SCALAR_EVENT:
        return take_scalar(self, event);
    case YAML_ALIAS_EVENT:
        return take_alias(self, event);
    case YAML_STREAM_END_EVENT: /* before any document */
        return "must be a JSON or YAML object";
    default:
        return NULL;
    }
}

const char *policy_fault(const char *text)
{
    policy_t self = {0};
    yaml_parser_t parser;
    yaml_event_t event;
    const char *why = NULL;
    bool end = false;

    if (!yaml_parser_initialize(&parser))
        return "could not be parsed: out of memory";
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    while (!why && !end) {
        if (!yaml_parser_parse(&parser, &event)) {
            why = "is not valid JSON or YAML";
            break;
        }
        why = take(&self, &event);
        end = event.type == YAML_DOCUMENT_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < self.count; i++)
        free(self.anchors[i]);
    return why;
}
