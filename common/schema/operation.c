#include "common/schema/operation.h"

#include <assert.h>
#include <stddef.h>

/* The words of the table, where they may be joined by |. */
enum {
    COLLECTION = PLACE_COLLECTION,
    OBJECT = PLACE_OBJECT,
    MODULE = PLACE_MODULE,
    DETACHABLE = PLACE_DETACHABLE,
    MEMBERS = PLACE_MEMBERS,
    MEMBER = PLACE_MEMBER,
    COMMAND = PLACE_COMMAND,
    NO_BODY = BODY_NO_BODY,
    WHOLE = BODY_WHOLE,
    PATCH = BODY_PATCH,
    OR_EMPTY = BODY_OR_EMPTY,
    ANY_BODY = BODY_ANY_BODY
};
enum { READS = false, CHANGES = true };

static const operation_t rows[] = {
#define OPERATION(word, name, method, places, needs, effect, status, body, answer)                 \
    {#name,  OPERATION_##word, #method, places,         OPERATION_##needs,                         \
     effect, status,           body,    ANSWER_##answer},
#include "proto/operations.def"
    {.name = NULL},
};

const operation_t *operation_all(void)
{
    return rows;
}

const operation_t *operation_row(unsigned bit)
{
    const operation_t *row = rows;

    while (row->bit != bit) {
        assert(row->name);
        row++;
    }
    return row;
}
