/* The static check: every variable is declared, every function exists with these arguments, every
 * operator fits its operands. What is known only at run time (CEL_DYN) passes. */
#include "common/cel/internal.h"
#include "common/base/quote.h"

#include <stdio.h>
#include <string.h>

enum { SCOPES_MAX = 16, NAME_MAX_LEN = 200 };

typedef struct checker {
    cel_t *cel;
    const cel_env_t *env;
    const char *scopes[SCOPES_MAX]; /* variables of the enclosing comprehensions */
    int scope_count;
} checker_t;

#define CALL(name, result, ...)   {name, false, result, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#define METHOD(name, result, ...) {name, true, result, COUNT(__VA_ARGS__), {__VA_ARGS__}},
#define COUNT(...)                (int)(sizeof((cel_type_t[]){__VA_ARGS__}) / sizeof(cel_type_t))
#define SIZE(type)                CALL("size", CEL_INT, type) METHOD("size", CEL_INT, type)
#define PART(name)                                                                                 \
    METHOD(name, CEL_INT, CEL_TIMESTAMP) METHOD(name, CEL_INT, CEL_TIMESTAMP, CEL_STRING)

/* langdef.md, "List of Standard Definitions". */
static const cel_function_t standard[] = {
    SIZE(CEL_STRING) SIZE(CEL_BYTES) SIZE(CEL_LIST) SIZE(CEL_MAP) METHOD(
        "contains", CEL_BOOL, CEL_STRING,
        CEL_STRING) METHOD("startsWith", CEL_BOOL, CEL_STRING,
                           CEL_STRING) METHOD("endsWith", CEL_BOOL, CEL_STRING, CEL_STRING)
        METHOD("matches", CEL_BOOL, CEL_STRING, CEL_STRING) CALL(
            "matches", CEL_BOOL, CEL_STRING, CEL_STRING) CALL("bool", CEL_BOOL, CEL_BOOL)
            CALL("bool", CEL_BOOL, CEL_STRING) CALL("bytes", CEL_BYTES, CEL_BYTES) CALL(
                "bytes", CEL_BYTES, CEL_STRING) CALL("double", CEL_DOUBLE,
                                                     CEL_DOUBLE) CALL("double", CEL_DOUBLE, CEL_INT)
                CALL("double", CEL_DOUBLE, CEL_UINT) CALL("double", CEL_DOUBLE, CEL_STRING) CALL(
                    "dyn", CEL_DYN,
                    CEL_DYN) CALL("duration", CEL_DURATION, CEL_DURATION)
                    CALL("duration", CEL_DURATION, CEL_STRING) CALL("int", CEL_INT, CEL_INT) CALL(
                        "int", CEL_INT,
                        CEL_UINT) CALL("int", CEL_INT, CEL_DOUBLE)
                        CALL("int", CEL_INT, CEL_STRING) CALL("int", CEL_INT, CEL_TIMESTAMP) CALL(
                            "string", CEL_STRING, CEL_STRING) CALL("string", CEL_STRING, CEL_BOOL)
                            CALL("string", CEL_STRING,
                                 CEL_INT) CALL("string", CEL_STRING,
                                               CEL_UINT) CALL("string", CEL_STRING, CEL_DOUBLE)
                                CALL("string", CEL_STRING, CEL_BYTES) CALL(
                                    "string", CEL_STRING,
                                    CEL_TIMESTAMP) CALL("string", CEL_STRING, CEL_DURATION)
                                    CALL("timestamp", CEL_TIMESTAMP,
                                         CEL_TIMESTAMP) CALL("timestamp", CEL_TIMESTAMP, CEL_STRING)
                                        CALL("timestamp", CEL_TIMESTAMP, CEL_INT) CALL(
                                            "type",
                                            CEL_TYPE, CEL_DYN) CALL("uint", CEL_UINT, CEL_UINT)
                                            CALL("uint", CEL_UINT,
                                                 CEL_INT) CALL("uint", CEL_UINT, CEL_DOUBLE)
                                                CALL("uint", CEL_UINT, CEL_STRING) PART("getDate")
                                                    PART("getDayOfMonth") PART("getDayOfWeek") PART(
                                                        "getDayOfYear") PART("getFullYear")
                                                        PART("getHours") PART("getMilliseconds")
                                                            PART("getMinutes") PART("getMonth")
                                                                PART("getSeconds") METHOD(
                                                                    "getHours", CEL_INT,
                                                                    CEL_DURATION)
                                                                    METHOD("getMilliseconds",
                                                                           CEL_INT, CEL_DURATION)
                                                                        METHOD("getMinutes",
                                                                               CEL_INT,
                                                                               CEL_DURATION)
                                                                            METHOD("getSeconds",
                                                                                   CEL_INT,
                                                                                   CEL_DURATION){
                                                                                NULL,
                                                                                false,
                                                                                CEL_DYN,
                                                                                0,
                                                                                {CEL_DYN}},
};

const char *cel_type_name(cel_type_t type)
{
    static const char *const names[] = {"dyn",       "null",     "bool",  "int",  "uint",
                                        "double",    "string",   "bytes", "list", "map",
                                        "timestamp", "duration", "type"};

    return names[type];
}

static int check_node(checker_t *self, cel_node_t *node);

static int check_children(checker_t *self, cel_node_t *node)
{
    for (cel_node_t *child = node->first; child; child = child->next)
        if (check_node(self, child))
            return 1;
    return 0;
}

/* ---- variables ---- */

/* Write the dotted name of a chain of selections. False: it is no such chain, or too long. */
static bool dotted_name(const cel_node_t *node, char *out, size_t size)
{
    size_t n;

    if (node->op == CEL_IDENT)
        return snprintf(out, size, "%s", node->text) < (int)size;
    if (node->op != CEL_SELECT || !dotted_name(node->first, out, size))
        return false;
    n = strlen(out);
    return snprintf(out + n, size - n, ".%s", node->text) < (int)(size - n);
}

static bool in_scope(const checker_t *self, const cel_node_t *node)
{
    while (node->op == CEL_SELECT)
        node = node->first;
    for (int i = 0; i < self->scope_count; i++)
        if (node->op == CEL_IDENT && !strcmp(self->scopes[i], node->text))
            return true;
    return false;
}

#define NO_VARIABLE "there is no variable "

bool cel_is_unknown_variable(const cel_error_t *error)
{
    return !strncmp(error->text, NO_VARIABLE, sizeof(NO_VARIABLE) - 1);
}

/* 0: the node became a declared variable | -1: there is no such variable | 1: the expression is
 * too large. */
static int resolve_variable(checker_t *self, cel_node_t *node)
{
    char name[NAME_MAX_LEN], *copy;
    cel_type_t type;

    if (in_scope(self, node) || !dotted_name(node, name, sizeof(name))
        || !self->env->find(self->env->context, name, &type))
        return -1;
    copy = cel_alloc(self->cel, strlen(name) + 1);
    if (!copy)
        return 1;
    memcpy(copy, name, strlen(name) + 1);
    node->op = CEL_VARIABLE;
    node->text = copy;
    node->len = strlen(copy);
    node->type = type;
    node->first = NULL;
    return 0;
}

static int check_ident(checker_t *self, cel_node_t *node)
{
    int r = resolve_variable(self, node);

    if (r >= 0)
        return r;
    node->type = CEL_DYN;
    return in_scope(self, node)
               ? 0
               : cel_fail(self->cel, node->at, NO_VARIABLE "%s", quote(node->text).text);
}

static int check_select(checker_t *self, cel_node_t *node)
{
    char name[NAME_MAX_LEN];
    int r = resolve_variable(self, node);

    if (r >= 0)
        return r;
    if (node->first->op == CEL_IDENT || node->first->op == CEL_SELECT) {
        cel_error_t *error = self->cel->error;

        if (check_node(self,
                       node->first)) { /* the error names the whole chain, not its first part */
            if (dotted_name(node, name, sizeof(name)) && cel_is_unknown_variable(error))
                snprintf(error->text, sizeof(error->text), NO_VARIABLE "%s", quote(name).text);
            return 1;
        }
    } else if (check_node(self, node->first)) {
        return 1;
    }
    node->type = CEL_DYN;
    if (node->first->type != CEL_MAP && node->first->type != CEL_DYN)
        return cel_fail(self->cel, node->at, "%s %s has no field %s",
                        quote_article(cel_type_name(node->first->type)),
                        cel_type_name(node->first->type), quote(node->text).text);
    return 0;
}

/* ---- calls ---- */

static bool function_takes(const cel_function_t *function, const cel_node_t *node)
{
    const cel_node_t *argument = node->first;
    int i;

    for (i = 0; i < function->count && argument; i++, argument = argument->next)
        if (function->arguments[i] != CEL_DYN && argument->type != CEL_DYN
            && function->arguments[i] != argument->type)
            return false;
    return i == function->count && !argument;
}

/* Find the function that takes these arguments. *ret_named: the name exists, perhaps with other
 * arguments. */
static const cel_function_t *find_function(const cel_function_t *rows, const cel_node_t *node,
                                           bool *ret_named)
{
    for (; rows && rows->name; rows++) {
        if (strcmp(rows->name, node->text) || rows->method != (node->op == CEL_METHOD))
            continue;
        *ret_named = true;
        if (function_takes(rows, node))
            return rows;
    }
    return NULL;
}

static int check_call(checker_t *self, cel_node_t *node)
{
    const cel_function_t *function;
    char types[100] = "";
    bool named = false;

    if (check_children(self, node))
        return 1;
    function = find_function(standard, node, &named);
    if (!function)
        function = find_function(self->env->functions, node, &named);
    if (function) {
        node->type = function->result;
        return 0;
    }
    if (!named)
        return cel_fail(self->cel, node->at, "there is no %s %s",
                        node->op == CEL_METHOD ? "method" : "function", quote(node->text).text);
    for (const cel_node_t *argument = node->first; argument; argument = argument->next) {
        size_t n = strlen(types);

        snprintf(types + n, sizeof(types) - n, "%s%s", n ? ", " : "",
                 cel_type_name(argument->type));
    }
    return cel_fail(self->cel, node->at, "%s does not take (%s)", quote(node->text).text, types);
}

/* Is it a macro (langdef.md, "Macros")? Its variable is visible in the arguments behind it. */
static bool is_macro(const cel_node_t *node, cel_type_t *ret_type)
{
    static const struct {
        const char *name;
        int least, most; /* arguments behind the variable */
        cel_type_t type;
    } rows[] = {{"all", 1, 1, CEL_BOOL},
                {"exists", 1, 1, CEL_BOOL},
                {"exists_one", 1, 1, CEL_BOOL},
                {"map", 1, 2, CEL_LIST},
                {"filter", 1, 1, CEL_LIST}};
    const cel_node_t *variable = node->first->next;
    int n = 0;

    if (!variable || variable->op != CEL_IDENT)
        return false;
    for (const cel_node_t *argument = variable->next; argument; argument = argument->next)
        n++;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].name, node->text) && n >= rows[i].least && n <= rows[i].most) {
            *ret_type = rows[i].type;
            return true;
        }
    return false;
}

static int check_macro(checker_t *self, cel_node_t *node)
{
    cel_node_t *target = node->first, *variable = target->next;
    int r = check_node(self, target);

    if (r)
        return r;
    if (target->type != CEL_LIST && target->type != CEL_MAP && target->type != CEL_DYN)
        return cel_fail(self->cel, node->at, "%s needs a list or a map, not %s %s",
                        quote(node->text).text, quote_article(cel_type_name(target->type)),
                        cel_type_name(target->type));
    if (self->scope_count == SCOPES_MAX)
        return cel_fail(self->cel, node->at, "there are more than %d macros in each other",
                        SCOPES_MAX);
    self->scopes[self->scope_count++] = variable->text;
    for (cel_node_t *argument = variable->next; !r && argument; argument = argument->next)
        r = check_node(self, argument);
    self->scope_count--;
    return r;
}

/* has(e.f): f may be absent, e may not. */
static int check_has(checker_t *self, cel_node_t *node)
{
    cel_node_t *field = node->first;

    node->type = CEL_BOOL;
    if (!field || field->next || field->op != CEL_SELECT)
        return cel_fail(self->cel, node->at, "has() takes one field selection");
    return check_node(self, field);
}

/* ---- operators ---- */

static bool is_numeric(cel_type_t type)
{
    return type == CEL_INT || type == CEL_UINT || type == CEL_DOUBLE;
}

static bool is_ordered(cel_type_t a, cel_type_t b)
{
    if (a == CEL_DYN || b == CEL_DYN)
        return true;
    return (is_numeric(a) && is_numeric(b))
           || (a == b
               && (a == CEL_BOOL || a == CEL_STRING || a == CEL_BYTES || a == CEL_TIMESTAMP
                   || a == CEL_DURATION));
}

/* The result type of an arithmetic operator. False: it does not take these operands. */
static bool check_arithmetic(cel_op_t op, cel_type_t a, cel_type_t b, cel_type_t *ret_type)
{
    *ret_type = a == CEL_DYN ? b : a;
    if (a == CEL_DYN || b == CEL_DYN) {
        *ret_type = CEL_DYN;
        return true;
    }
    if (a == b && is_numeric(a))
        return op != CEL_MODULO || a != CEL_DOUBLE;
    if (op == CEL_ADD && a == b)
        return a == CEL_STRING || a == CEL_BYTES || a == CEL_LIST || a == CEL_DURATION;
    if (op == CEL_ADD
        && ((a == CEL_TIMESTAMP && b == CEL_DURATION)
            || (a == CEL_DURATION && b == CEL_TIMESTAMP))) {
        *ret_type = CEL_TIMESTAMP;
        return true;
    }
    if (op == CEL_SUBTRACT && (a == CEL_TIMESTAMP || a == CEL_DURATION)) {
        *ret_type = b == CEL_DURATION ? a : CEL_DURATION;
        return b == CEL_DURATION || a == b;
    }
    return false;
}

static bool type_is(cel_type_t type, cel_type_t wanted)
{
    return type == wanted || type == CEL_DYN;
}

static int check_operator(checker_t *self, cel_node_t *node)
{
    const cel_node_t *third;
    cel_type_t a, b;
    bool good;

    if (check_children(self, node))
        return 1;
    a = node->first->type;
    b = node->first->next ? node->first->next->type : CEL_DYN;
    node->type = CEL_BOOL;
    switch (node->op) {
    case CEL_NOT:
        good = type_is(a, CEL_BOOL);
        break;
    case CEL_AND:
    case CEL_OR:
        good = type_is(a, CEL_BOOL) && type_is(b, CEL_BOOL);
        break;
    case CEL_NEGATE:
        good = type_is(a, CEL_INT) || a == CEL_DOUBLE;
        node->type = a;
        break;
    case CEL_LT:
    case CEL_LE:
    case CEL_GT:
    case CEL_GE:
        good = is_ordered(a, b);
        break;
    case CEL_IN:
        good = type_is(b, CEL_LIST) || b == CEL_MAP;
        break;
    case CEL_CONDITION:
        third = node->first->next ? node->first->next->next : NULL;
        node->type = third && third->type == b ? b : CEL_DYN;
        good = type_is(a, CEL_BOOL);
        break;
    case CEL_EQ:
    case CEL_NE:
        good = true; /* values of different types are unequal; that is no error */
        break;
    default:
        good = check_arithmetic(node->op, a, b, &node->type);
        break;
    }
    if (good)
        return 0;
    if (!node->first->next)
        return cel_fail(self->cel, node->at, "this operator does not take %s %s",
                        quote_article(cel_type_name(a)), cel_type_name(a));
    return cel_fail(self->cel, node->at, "this operator does not take %s and %s", cel_type_name(a),
                    cel_type_name(b));
}

static int check_node(checker_t *self, cel_node_t *node)
{
    switch (node->op) {
    case CEL_CONSTANT:
    case CEL_VARIABLE:
        return 0;
    case CEL_IDENT:
        return check_ident(self, node);
    case CEL_SELECT:
        return check_select(self, node);
    case CEL_CALL:
        return strcmp(node->text, "has") ? check_call(self, node) : check_has(self, node);
    case CEL_METHOD:
        return is_macro(node, &node->type) ? check_macro(self, node) : check_call(self, node);
    case CEL_MAKE_LIST:
    case CEL_MAKE_MAP:
        node->type = node->op == CEL_MAKE_LIST ? CEL_LIST : CEL_MAP;
        return check_children(self, node);
    case CEL_INDEX:
        node->type = CEL_DYN;
        if (check_children(self, node))
            return 1;
        if (node->first->type == CEL_LIST || node->first->type == CEL_MAP
            || node->first->type == CEL_DYN)
            return 0;
        return cel_fail(self->cel, node->at, "%s %s has no items",
                        quote_article(cel_type_name(node->first->type)),
                        cel_type_name(node->first->type));
    default:
        return check_operator(self, node);
    }
}

int cel_check(cel_t *self, const cel_env_t *env, cel_error_t *error)
{
    checker_t checker = {.cel = self, .env = env};

    memset(error, 0, sizeof(*error));
    self->error = error;
    return check_node(&checker, self->root);
}
