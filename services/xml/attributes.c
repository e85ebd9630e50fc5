#include "services/xml/attributes.h"
#include "common/base/cleanup.h"
#include "services/xml/message.h"

#include <string.h>

enum {
    ATTRIBUTES_MAX = 256,
    VALUES_MAX = 2048,
    NAME_BYTES_MAX = 512,
    VALUE_BYTES_MAX = 4096,
    ALL_BYTES_MAX = 96 << 10
};

typedef struct taking {
    json_t *attributes;
    int values;
    size_t bytes;
} taking_t;

/* False: a bound is broken. */
static bool take_value(taking_t *self, json_t *list, const xmlNode *element)
{
    _cleanup_(free_mem) char *text = NULL;

    if (element_first(element))
        return true;
    text = element_text(element, VALUE_BYTES_MAX);
    if (!text)
        return false;
    self->bytes += strlen(text);
    return ++self->values <= VALUES_MAX && self->bytes <= ALL_BYTES_MAX
           && !json_array_append_new(list, json_string(text));
}

static json_t *list_of(taking_t *self, const char *name)
{
    json_t *list = json_object_get(self->attributes, name);

    if (!list && json_object_size(self->attributes) < ATTRIBUTES_MAX) {
        list = json_array();
        json_object_set_new(self->attributes, name, list);
        self->bytes += strlen(name);
    }
    return list;
}

static bool take_attribute(taking_t *self, const xmlNode *attribute)
{
    const char *name = element_attribute(attribute, "Name");
    json_t *list = name && *name && strlen(name) <= NAME_BYTES_MAX ? list_of(self, name) : NULL;

    if (!list)
        return false;
    for (xmlNodePtr one = element_first(attribute); one; one = element_next(one))
        if (element_is(one, NS_ASSERTION, "AttributeValue") && !take_value(self, list, one))
            return false;
    return true;
}

static bool take_statement(taking_t *self, const xmlNode *statement)
{
    for (xmlNodePtr one = element_first(statement); one; one = element_next(one))
        if (element_is(one, NS_ASSERTION, "Attribute") && !take_attribute(self, one))
            return false;
    return true;
}

int attributes_take(const xmlNode *assertion, json_t *answer, problem_t *problem)
{
    taking_t taking = {.attributes = json_object()};

    json_object_set_new(answer, "attributes", taking.attributes);
    for (xmlNodePtr one = element_first(assertion); one; one = element_next(one))
        if (element_is(one, NS_ASSERTION, "AttributeStatement") && !take_statement(&taking, one))
            return message_refuse(problem, "has an attribute without a name, more than 256 "
                                           "attributes, 2048 values or 96 KiB of them, or one of "
                                           "more than 4 KiB");
    return 0;
}
