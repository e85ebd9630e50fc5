#include "common/resource/filter.h"
#include "common/cel/cel.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "common/schema/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct compiler {
    filter_t *out;
    const kind_t *kind;
    size_t used; /* of out->sql */
    int first;
    cel_error_t *error;
} compiler_t;

static int value(compiler_t *self, const cel_node_t *node);
static int condition(compiler_t *self, const cel_node_t *node);

static int refuse(compiler_t *self, const cel_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(compiler_t *self, const cel_node_t *node, const char *format, ...)
{
    va_list args;

    self->error->at = node->at;
    va_start(args, format);
    vsnprintf(self->error->text, sizeof(self->error->text), format, args);
    va_end(args);
    return 1;
}

static void emit(compiler_t *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append SQL text. An overflow is noticed at the end: used is then beyond the buffer. */
static void emit(compiler_t *self, const char *format, ...)
{
    size_t size = sizeof(self->out->sql);
    va_list args;
    int n;

    if (self->used >= size)
        return;
    va_start(args, format);
    n = vsnprintf(self->out->sql + self->used, size - self->used, format, args);
    va_end(args);
    self->used += (size_t)n;
}

/* Append a placeholder for text, which is taken over. */
static int emit_param(compiler_t *self, const cel_node_t *node, char *text, const char *cast)
{
    filter_t *out = self->out;

    if (!text)
        return -ENOMEM;
    if (out->count == FILTER_PARAMS_MAX) {
        free(text);
        return refuse(self, node, "more than %d values", FILTER_PARAMS_MAX);
    }
    emit(self, "$%d::%s", self->first + out->count, cast);
    out->owned[out->count] = text;
    out->params[out->count++] = text;
    return 0;
}

/* ---- variables ---- */

/* The FILTER field of that name in a type; *ret_rest is what follows the name. */
static const field_t *find_member(const object_type_t *type, const char *name,
                                  const char **ret_rest)
{
    for (const field_t *field = type->fields; field->name; field++) {
        size_t n = strlen(field->name);

        if (!(field->flags & FIELD_FILTER) || strncmp(field->name, name, n))
            continue;
        *ret_rest = name + n;
        if (!name[n] || name[n] == '.')
            return field;
    }
    return NULL;
}

/* obj.field, obj.field.id of a reference, or obj.field.member of a nested object, which is then
 * *ret_member (else NULL). */
static const field_t *find_field(const kind_t *kind, const char *name, const field_t **ret_member)
{
    const field_t *field;
    const char *rest = "";

    *ret_member = NULL;
    if (strncmp(name, "obj.", 4))
        return NULL;
    field = find_member(&kind->type, name + 4, &rest);
    if (!field)
        return NULL;
    if (field->type == FIELD_NESTED) {
        *ret_member = *rest ? find_member(field->object, rest + 1, &rest) : NULL;
        return *ret_member && !*rest ? field : NULL;
    }
    return !*rest || (field->type == FIELD_REFERENCE && !strcmp(rest, ".id")) ? field : NULL;
}

static bool find_variable(const void *context, const char *name, cel_type_t *ret_type)
{
    const field_t *member, *field = find_field(context, name, &member);

    *ret_type = CEL_TIMESTAMP;
    if (!strcmp(name, "time.now"))
        return true;
    if (!field)
        return false;
    *ret_type = field->type == FIELD_BOOL      ? CEL_BOOL
                : field->type == FIELD_TIME    ? CEL_TIMESTAMP
                : field->type == FIELD_STRINGS ? CEL_LIST
                                               : CEL_STRING;
    return true;
}

static int variable(compiler_t *self, const cel_node_t *node)
{
    const field_t *member, *field = find_field(self->kind, node->text, &member);

    if (!field)
        emit(self, "now()"); /* time.now */
    else if (member)
        emit(self, "(t.\"%s\" ->> '%s') COLLATE \"C\"", field->name, member->name);
    else if (field->flags & FIELD_COMPUTED)
        emit(self, "NULL::text");
    else
        emit(self, "t.\"%s\"%s", field_key(field),
             node->type == CEL_STRING ? " COLLATE \"C\"" : "");
    return 0;
}

/* ---- values ---- */

static int constant(compiler_t *self, const cel_node_t *node)
{
    switch (node->type) {
    case CEL_NULL:
        emit(self, "NULL");
        return 0;
    case CEL_BOOL:
        emit(self, node->value.boolean ? "true" : "false");
        return 0;
    case CEL_INT:
        emit(self, "%" PRId64 "::numeric", node->value.integer);
        return 0;
    case CEL_UINT:
        emit(self, "%" PRIu64 "::numeric", node->value.natural);
        return 0;
    case CEL_DOUBLE:
        emit(self, "%.17g::numeric", node->value.real);
        return 0;
    case CEL_STRING:
        return emit_param(self, node, strdup(node->text), "text");
    default:
        return refuse(self, node, "%s %s has no place in a list filter",
                      quote_article(cel_type_name(node->type)), cel_type_name(node->type));
    }
}

static int list(compiler_t *self, const cel_node_t *node)
{
    _cleanup_(json_clear_ref) json_t *items = json_array();

    for (const cel_node_t *item = node->first; item; item = item->next) {
        if (item->op != CEL_CONSTANT || item->type != CEL_STRING)
            return refuse(self, item, "a list can hold strings only");
        json_array_append_new(items, json_string(item->text));
    }
    return emit_param(self, node, json_dumps(items, JSON_COMPACT), "jsonb");
}

enum { WHOLE_SECONDS = 19 /* YYYY-MM-DDThh:mm:ss */, MICROSECONDS = 6 /* digits; PostgreSQL's */ };

/* Limits of time arithmetic. Results computed here stay in the years that RFC 3339 can write (1 to
 * 9999). A field may have any of these, so PostgreSQL shifts it by at most 4,000 years: its range
 * begins in 4713 BC. */
static const int64_t YEAR_1 = -62135596800, YEAR_9999_END = 253402300799,
                     FIELD_SHIFT_MAX = 126230400000 /* 4,000 years */,
                     DURATION_MAX = 315576000000 /* 10,000 */;

/* Parse a duration such as 7d, 1h30m or 90s (whole numbers with units, in any order) into seconds.
 * NULL | what is wrong. */
static const char *read_duration(const char *text, int64_t *ret_seconds)
{
    static const char shape[] = "a duration is a text in quotes like \"7d\" or \"1h30m\"";
    int64_t total = 0;

    if (!*text)
        return shape;
    while (*text) {
        char *unit;
        long long n = *text >= '0' && *text <= '9' ? strtoll(text, &unit, 10) : -1;
        int64_t scale;

        if (n < 0)
            return shape;
        scale = *unit == 'd'   ? 86400
                : *unit == 'h' ? 3600
                : *unit == 'm' ? 60
                : *unit == 's' ? 1
                               : 0;
        if (!scale)
            return shape;
        if (n > DURATION_MAX / scale || (total += n * scale) > DURATION_MAX)
            return "a duration is at most 10,000 years";
        text = unit + 1;
    }
    *ret_seconds = total;
    return NULL;
}

/* The seconds that .add("7d"), .subtract(duration("7d")) move a time by. */
static int read_shift(compiler_t *self, const cel_node_t *node, int64_t *ret_seconds)
{
    const cel_node_t *by = node->first->next;
    const char *why = "a duration is a text in quotes like \"7d\" or \"1h30m\"";

    if (by->op == CEL_CALL && !strcmp(by->text, "duration"))
        by = by->first;
    if (by->op == CEL_CONSTANT && by->type == CEL_STRING)
        why = read_duration(by->text, ret_seconds);
    if (why)
        return refuse(self, by, "%s", why);
    if (strcmp(node->text, "add"))
        *ret_seconds = -*ret_seconds;
    return 0;
}

/* Is base + shift a time that RFC 3339 can write? Both in seconds. */
static bool is_in_range(int64_t base, int64_t shift)
{
    return base + shift >= YEAR_1 && base + shift <= YEAR_9999_END;
}

/* timestamp("...") with its shift: a constant, computed here. */
static int time_of_text(compiler_t *self, const cel_node_t *node, const cel_node_t *whole,
                        int64_t shift)
{
    const cel_node_t *text = node->first;
    const char *fraction, *why = NULL;
    char normal[64], *out = NULL;
    struct tm tm = {0};
    int64_t seconds;
    int digits;

    if (text->op != CEL_CONSTANT || text->type != CEL_STRING)
        return refuse(self, node, "timestamp() takes a text in quotes, or time.now");
    if (format_check("rfc3339", ERR_BAD_TIMESTAMP, text->text, normal, sizeof(normal), &why))
        return refuse(self, text, "%s %s", quote(text->text).text, why);
    strptime(normal, "%Y-%m-%dT%H:%M:%SZ", &tm);
    seconds = (int64_t)timegm(&tm);
    if (!is_in_range(seconds, shift))
        return refuse(self, whole, "a time is from year 1 to 9999");
    seconds += shift;
    gmtime_r(&(time_t){(time_t)seconds}, &tm);
    /* the format keeps whole seconds; a comparison must not lose the rest */
    fraction = text->text + WHOLE_SECONDS;
    digits = *fraction == '.' ? (int)strspn(fraction + 1, "0123456789") : 0;
    if (asprintf(&out, "%04d-%02d-%02dT%02d:%02d:%02d%.*sZ", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                 digits ? 1 + (digits < MICROSECONDS ? digits : MICROSECONDS) : 0, fraction)
        < 0)
        out = NULL;
    return emit_param(self, text, out, "timestamptz");
}

/* time.now or a field with its shift, which PostgreSQL computes. */
static int time_of_variable(compiler_t *self, const cel_node_t *node, const cel_node_t *whole,
                            int64_t shift)
{
    const field_t *member;
    bool is_field = find_field(self->kind, node->text, &member) != NULL;
    char *text = NULL;
    int r;

    if (!is_field && !is_in_range((int64_t)time(NULL), shift))
        return refuse(self, whole, "a time is from year 1 to 9999");
    if (is_field && (shift > FIELD_SHIFT_MAX || shift < -FIELD_SHIFT_MAX))
        return refuse(self, whole, "a field's time can be moved by at most 4,000 years");
    if (!shift)
        return variable(self, node);
    emit(self, "(");
    r = variable(self, node);
    if (r)
        return r;
    emit(self, shift < 0 ? " - " : " + ");
    if (asprintf(&text, "%" PRId64 " seconds", shift < 0 ? -shift : shift) < 0)
        return -ENOMEM;
    r = emit_param(self, whole, text, "interval");
    emit(self, ")");
    return r;
}

/* A time with a chain of add and subtract, summed into one shift: an intermediate result could be
 * out of PostgreSQL's range. */
static int moved_time(compiler_t *self, const cel_node_t *node)
{
    const cel_node_t *base = node;
    int64_t shift = 0, by = 0;
    int r;

    for (;;) {
        if (base->op == CEL_VARIABLE)
            return time_of_variable(self, base, node, shift);
        if (base->op != CEL_CALL && base->op != CEL_METHOD)
            return value(self, base); /* which refuses it */
        if (!strcmp(base->text, "timestamp")) {
            if (base->first->type != CEL_TIMESTAMP)
                return time_of_text(self, base, node, shift);
        } else if (!strcmp(base->text, "add") || !strcmp(base->text, "subtract")) {
            r = read_shift(self, base, &by);
            if (r)
                return r;
            shift += by; /* CEL_NODES_MAX durations do not overflow */
        } else {
            return refuse(self, base, "%s is not available in a list filter",
                          quote(base->text).text);
        }
        base = base->first;
    }
}

static int size_of(compiler_t *self, const cel_node_t *node)
{
    int r;

    emit(self, "%s(", node->first->type == CEL_STRING ? "char_length" : "jsonb_array_length");
    r = value(self, node->first);
    emit(self, ")::numeric");
    return r;
}

static int value(compiler_t *self, const cel_node_t *node)
{
    switch (node->op) {
    case CEL_CONSTANT:
        return constant(self, node);
    case CEL_VARIABLE:
        return variable(self, node);
    case CEL_MAKE_LIST:
        return list(self, node);
    case CEL_CALL:
    case CEL_METHOD:
        if (!strcmp(node->text, "size")
            && (node->first->type == CEL_STRING || node->first->type == CEL_LIST))
            return size_of(self, node);
        if (!strcmp(node->text, "timestamp") || !strcmp(node->text, "add")
            || !strcmp(node->text, "subtract"))
            return moved_time(self, node);
        return refuse(self, node, "%s is not available in a list filter", quote(node->text).text);
    case CEL_INDEX:
        return refuse(self, node, "indices are not available in a list filter");
    case CEL_CONDITION:
        return refuse(self, node, "?: is not available in a list filter");
    case CEL_MULTIPLY:
    case CEL_DIVIDE:
    case CEL_MODULO:
    case CEL_ADD:
    case CEL_SUBTRACT:
    case CEL_NEGATE:
        return refuse(self, node, "arithmetic is not available in a list filter");
    default:
        return refuse(self, node, "this is not available in a list filter");
    }
}

/* ---- conditions: never NULL ---- */

static bool is_null(const cel_node_t *node)
{
    return node->op == CEL_CONSTANT && node->type == CEL_NULL;
}

static bool numeric(const cel_node_t *node)
{
    return node->type == CEL_INT || node->type == CEL_UINT || node->type == CEL_DOUBLE;
}

static int both(compiler_t *self, const cel_node_t *node, const char *before, const char *between,
                const char *after)
{
    int r;

    emit(self, "%s", before);
    r = value(self, node->first);
    emit(self, "%s", between);
    if (!r)
        r = value(self, node->first->next);
    emit(self, "%s", after);
    return r;
}

/* A field that is equal to a text: PostgreSQL looks for that in an index, where there is one, but
 * not for IS NOT DISTINCT FROM. */
static int equals_text(compiler_t *self, const cel_node_t *field, const cel_node_t *text)
{
    int r;

    emit(self, "(");
    r = variable(self, field);
    emit(self, " = ");
    if (!r)
        r = value(self, text);
    emit(self, " AND ");
    if (!r)
        r = variable(self, field);
    emit(self, " IS NOT NULL)");
    return r;
}

static bool is_text(const cel_node_t *node)
{
    return node->op == CEL_CONSTANT && node->type == CEL_STRING;
}

static int compare(compiler_t *self, const cel_node_t *node)
{
    static const char *const signs[] = {
        [CEL_LT] = " < ", [CEL_LE] = " <= ", [CEL_GT] = " > ", [CEL_GE] = " >= "};
    const cel_node_t *a = node->first, *b = a->next;

    if (!is_null(a) && !is_null(b) && a->type != b->type && !(numeric(a) && numeric(b)))
        return refuse(self, node, "compares %s %s with %s %s%s",
                      quote_article(cel_type_name(a->type)), cel_type_name(a->type),
                      quote_article(cel_type_name(b->type)), cel_type_name(b->type),
                      a->type == CEL_TIMESTAMP || b->type == CEL_TIMESTAMP
                          ? ": write timestamp(\"...\") around the text"
                          : "");
    if (node->op == CEL_EQ && a->op == CEL_VARIABLE && is_text(b))
        return equals_text(self, a, b);
    if (node->op == CEL_EQ && b->op == CEL_VARIABLE && is_text(a))
        return equals_text(self, b, a);
    if (node->op == CEL_EQ)
        return both(self, node, "(", " IS NOT DISTINCT FROM ", ")");
    if (node->op == CEL_NE)
        return both(self, node, "(", " IS DISTINCT FROM ", ")");
    if (a->type == CEL_BOOL)
        return refuse(self, node, "true and false have no order");
    return both(self, node, "coalesce(", signs[node->op], ", false)");
}

static int contained(compiler_t *self, const cel_node_t *node)
{
    if (node->first->type != CEL_STRING)
        return refuse(self, node, "only a string can be looked for in a list");
    return both(self, node, "coalesce(", " IN (SELECT jsonb_array_elements_text(", ")), false)");
}

/* contains, startsWith, endsWith. Ids are compared whole. */
static int text_search(compiler_t *self, const cel_node_t *node)
{
    const cel_node_t *target = node->first;
    const char *name = target->text;
    size_t n = strlen(name);

    if (target->op != CEL_VARIABLE)
        return refuse(self, node, "%s is for fields of obj", quote(node->text).text);
    if (n >= 2 && !strcmp(name + n - 2, "id"))
        return refuse(self, node, "%s is not available on ids", quote(node->text).text);
    if (!strcmp(node->text, "contains"))
        return both(self, node, "coalesce(strpos(", ", ", ") > 0, false)");
    if (!strcmp(node->text, "startsWith"))
        return both(self, node, "coalesce(starts_with(", ", ", "), false)");
    return both(self, node, "coalesce(strpos(reverse(", "), reverse(", ")) = 1, false)");
}

static int joined(compiler_t *self, const cel_node_t *node, const char *word)
{
    int r;

    emit(self, "(");
    r = condition(self, node->first);
    emit(self, "%s", word);
    if (!r)
        r = condition(self, node->first->next);
    emit(self, ")");
    return r;
}

static int condition(compiler_t *self, const cel_node_t *node)
{
    int r;

    switch (node->op) {
    case CEL_AND:
        return joined(self, node, " AND ");
    case CEL_OR:
        return joined(self, node, " OR ");
    case CEL_NOT:
        emit(self, "(NOT ");
        r = condition(self, node->first);
        emit(self, ")");
        return r;
    case CEL_EQ:
    case CEL_NE:
    case CEL_LT:
    case CEL_LE:
    case CEL_GT:
    case CEL_GE:
        return compare(self, node);
    case CEL_IN:
        return contained(self, node);
    case CEL_METHOD:
        if (!strcmp(node->text, "contains") || !strcmp(node->text, "startsWith")
            || !strcmp(node->text, "endsWith"))
            return text_search(self, node);
        break;
    default:
        break;
    }
    if (node->type != CEL_BOOL)
        return refuse(self, node, "is %s %s: a filter must be true or false",
                      quote_article(cel_type_name(node->type)), cel_type_name(node->type));
    emit(self, "coalesce(");
    r = value(self, node);
    emit(self, ", false)");
    return r;
}

static int compile(compiler_t *self, cel_t *cel)
{
    static const cel_function_t functions[] = {
        {"add", true, CEL_TIMESTAMP, 2, {CEL_TIMESTAMP, CEL_STRING}},
        {"add", true, CEL_TIMESTAMP, 2, {CEL_TIMESTAMP, CEL_DURATION}},
        {"subtract", true, CEL_TIMESTAMP, 2, {CEL_TIMESTAMP, CEL_STRING}},
        {"subtract", true, CEL_TIMESTAMP, 2, {CEL_TIMESTAMP, CEL_DURATION}},
        {NULL, false, CEL_DYN, 0, {CEL_DYN}},
    };
    const cel_env_t env = {find_variable, self->kind, functions};
    int r = cel_check(cel, &env, self->error);

    if (!r)
        r = condition(self, cel_root(cel));
    if (!r && self->used >= sizeof(self->out->sql))
        r = refuse(self, cel_root(cel), "the filter is too large");
    return r;
}

enum { NAMES_MAX = 240 /* bytes of what a problem has room for */ };

/* Append the names of a type's FILTER fields, behind `prefix` each, as many as have room. False:
 * there are more. */
static bool put_fields(char names[NAMES_MAX], const object_type_t *type, const char *prefix)
{
    char name[64];
    bool all = true;

    for (const field_t *field = type->fields; field->name && all; field++) {
        size_t len = strlen(names);

        if (!(field->flags & FIELD_FILTER))
            continue;
        snprintf(name, sizeof(name), "%s%s%s", prefix, field->name,
                 field->type == FIELD_NESTED ? "." : ", ");
        if (field->type == FIELD_NESTED)
            all = put_fields(names, field->object, name);
        else if (len + strlen(name) < NAMES_MAX)
            memcpy(names + len, name, strlen(name) + 1);
        else
            all = false;
    }
    return all;
}

/* Nobody has to guess what there is instead of a variable that is not there. */
static int add_problem(const kind_t *kind, const cel_error_t *error, problem_t *problem)
{
    char names[NAMES_MAX] = "";
    bool all;

    if (!cel_is_unknown_variable(error))
        return problem_add(problem, ERR_BAD_FILTER, "filter", "at byte %zu: %s", error->at,
                           error->text);
    all = put_fields(names, &kind->type, "obj.");
    return problem_add(problem, ERR_BAD_FILTER, "filter", "at byte %zu: %s: there are %stime.now%s",
                       error->at, error->text, names, all ? "" : " and others");
}

int filter_compile(filter_t *self, const kind_t *kind, const char *source, int first,
                   problem_t *problem)
{
    cel_error_t error;
    compiler_t compiler = {.out = self, .kind = kind, .first = first, .error = &error};
    cel_t *cel = NULL;
    int r;

    self->count = 0;
    self->sql[0] = '\0';
    r = cel_parse(&cel, source, strlen(source), &error);
    if (!r)
        r = compile(&compiler, cel);
    if (r > 0)
        r = add_problem(kind, &error, problem);
    cel_destroy(&cel);
    return r;
}

void filter_done(filter_t *self)
{
    while (self->count > 0)
        free(self->owned[--self->count]);
}
