#include "common/base/err.h"
#include "common/base/quote.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAILS_MAX = 100 };

static const outcome_t rows[] = {
#define OUTCOME(name, code, status, situation, text) {code, status, #name, situation, text},
#include "proto/errors.def"
    {0, 0, NULL, NULL, NULL},
};

static _Thread_local char last_fault[256];

const outcome_t *outcome_all(void)
{
    return rows;
}

const outcome_t *outcome_find(int code)
{
    for (const outcome_t *row = rows; row->code; row++)
        if (row->code == code)
            return row;
    return NULL;
}

const char *outcome_name(int r)
{
    const outcome_t *row;

    if (r == 0)
        return "OK";
    if (r < 0)
        return strerror(-r);
    row = outcome_find(r);
    return row ? row->name : "UNKNOWN";
}

int fault(int r, const char *what)
{
    if (r > 0)
        r = -EPROTO;
    snprintf(last_fault, sizeof(last_fault), "%s: %s", what, strerror(-r));
    return r;
}

const char *fault_text(void)
{
    return last_fault;
}

int problem_add(problem_t *self, int code, const char *field, const char *format, ...)
{
    char text[400], name[160] = "";
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Field and text may hold what somebody sent, cut by a buffer: JSON with invalid UTF-8 would
     * reach nobody. */
    quote_plain(text, sizeof(text), text);
    if (field)
        quote_plain(name, sizeof(name), field);
    if (!self->code) {
        self->code = code;
        snprintf(self->msg, sizeof(self->msg), "%s%s", name, field ? ": " : "");
        quote_plain(self->msg + strlen(self->msg), sizeof(self->msg) - strlen(self->msg), text);
    }
    if (!self->details)
        self->details = json_object();
    if (field && json_object_size(self->details) < DETAILS_MAX
        && !json_object_get(self->details, name))
        json_object_set_new(self->details, name, json_string(text));
    return code;
}

void problem_done(problem_t *self)
{
    json_decref(self->details);
    self->details = NULL;
}
