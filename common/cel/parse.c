/* The grammar (langdef.md, "Syntax"): one function for each level of precedence; left associative
 * operators are loops, so that only nesting makes the recursion deeper. */
#include "common/cel/internal.h"
#include "common/base/quote.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cel_node_t *parse_expression(cel_t *self);
static cel_node_t *parse_unary(cel_t *self);

int cel_fail(cel_t *self, size_t at, const char *format, ...)
{
    va_list args;

    if (self->error->text[0])
        return 1;
    self->error->at = at;
    va_start(args, format);
    vsnprintf(self->error->text, sizeof(self->error->text), format, args);
    va_end(args);
    return 1;
}

void *cel_alloc(cel_t *self, size_t size)
{
    void *at = self->arena + self->arena_used;

    size = (size + 15) & ~(size_t)15;
    if (size > self->arena_size - self->arena_used) {
        cel_fail(self, (size_t)(self->at - self->source), "the expression is too large");
        return NULL;
    }
    self->arena_used += size;
    return at;
}

static cel_node_t *make_node(cel_t *self, cel_op_t op, size_t at)
{
    cel_node_t *node;

    if (++self->nodes > CEL_NODES_MAX) {
        cel_fail(self, at, "the expression has more than %d parts", CEL_NODES_MAX);
        return NULL;
    }
    node = cel_alloc(self, sizeof(*node));
    if (!node)
        return NULL;
    memset(node, 0, sizeof(*node));
    node->op = op;
    node->at = at;
    node->text = "";
    return node;
}

static cel_node_t *make_pair(cel_t *self, cel_op_t op, size_t at, cel_node_t *first,
                             cel_node_t *second)
{
    cel_node_t *node = first && second ? make_node(self, op, at) : NULL;

    if (node) {
        node->first = first;
        first->next = second;
    }
    return node;
}

static bool is_sign(const cel_t *self, const char *text)
{
    return self->token.type == TOKEN_SIGN && !strcmp(self->token.text, text);
}

static bool accept_sign(cel_t *self, const char *text)
{
    return is_sign(self, text) && !cel_lex(self);
}

static bool expect_sign(cel_t *self, const char *text)
{
    if (!is_sign(self, text)) {
        cel_fail(self, self->token.at, "'%s' is missing here", text);
        return false;
    }
    return !cel_lex(self);
}

static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "as",  "break", "const",   "continue",  "else",   "for", "function", "if",   "import",
        "let", "loop",  "package", "namespace", "return", "var", "void",     "while"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(words[i], name))
            return true;
    return false;
}

/* Parse items up to the closing sign, and append them at *end; trailing: a comma may stand before
 * it. */
static bool parse_items(cel_t *self, const char *close, bool trailing, bool pairs, cel_node_t **end)
{
    while (!is_sign(self, close)) {
        cel_node_t *item = parse_expression(self);

        if (!item)
            return false;
        *end = item;
        end = &item->next;
        if (pairs) {
            if (!expect_sign(self, ":"))
                return false;
            item = parse_expression(self);
            if (!item)
                return false;
            *end = item;
            end = &item->next;
        }
        if (!accept_sign(self, ","))
            break;
        if (is_sign(self, close) && !trailing) {
            cel_fail(self, self->token.at, "an argument is missing here");
            return false;
        }
    }
    return expect_sign(self, close);
}

static cel_node_t *parse_constant(cel_t *self)
{
    static const cel_type_t types[] = {
        [TOKEN_INT] = CEL_INT,       [TOKEN_UINT] = CEL_UINT,   [TOKEN_DOUBLE] = CEL_DOUBLE,
        [TOKEN_STRING] = CEL_STRING, [TOKEN_BYTES] = CEL_BYTES,
    };
    const cel_token_t token = self->token;
    cel_node_t *node = make_node(self, CEL_CONSTANT, token.at);

    if (!node)
        return NULL;
    node->type = types[token.type];
    node->text = token.text;
    node->len = token.len;
    if (token.type == TOKEN_DOUBLE)
        node->value.real = token.value.real;
    else
        node->value.natural = token.value.natural;
    if (token.type == TOKEN_INT && token.value.natural > INT64_MAX) {
        cel_fail(self, token.at, "the number does not fit in 64 bits");
        return NULL;
    }
    return cel_lex(self) ? NULL : node;
}

/* Parse a name, a keyword's value, or a call of a function. */
static cel_node_t *parse_name(cel_t *self)
{
    const cel_token_t token = self->token;
    cel_node_t *node = make_node(self, CEL_IDENT, token.at);

    if (!node || cel_lex(self))
        return NULL;
    node->text = token.text;
    node->len = token.len;
    if (!strcmp(token.text, "true") || !strcmp(token.text, "false")) {
        node->op = CEL_CONSTANT;
        node->type = CEL_BOOL;
        node->value.boolean = token.text[0] == 't';
    } else if (!strcmp(token.text, "null")) {
        node->op = CEL_CONSTANT;
        node->type = CEL_NULL;
    } else if (is_reserved(token.text)) {
        cel_fail(self, token.at, "%s is a reserved word", quote(token.text).text);
        return NULL;
    } else if (accept_sign(self, "(")) {
        node->op = CEL_CALL;
        if (!parse_items(self, ")", false, false, &node->first))
            return NULL;
    }
    return self->error->text[0] ? NULL : node;
}

static cel_node_t *parse_primary(cel_t *self)
{
    size_t at = self->token.at;
    cel_node_t *node;

    if (self->token.type == TOKEN_IDENT)
        return parse_name(self);
    if (self->token.type != TOKEN_SIGN && self->token.type != TOKEN_END
        && self->token.type != TOKEN_QUOTED_IDENT)
        return parse_constant(self);
    if (accept_sign(self, ".")) { /* the root scope: there is no other here */
        if (self->token.type == TOKEN_IDENT)
            return parse_name(self);
        cel_fail(self, self->token.at, "a name is missing here");
        return NULL;
    }
    if (accept_sign(self, "(")) {
        node = parse_expression(self);
        return node && expect_sign(self, ")") ? node : NULL;
    }
    if (is_sign(self, "[") || is_sign(self, "{")) {
        bool list = is_sign(self, "[");

        node = make_node(self, list ? CEL_MAKE_LIST : CEL_MAKE_MAP, at);
        return node && !cel_lex(self)
                       && parse_items(self, list ? "]" : "}", true, !list, &node->first)
                   ? node
                   : NULL;
    }
    cel_fail(self, at,
             self->token.type == TOKEN_END ? "the expression ends too early"
                                           : "a value is missing here");
    return NULL;
}

static cel_node_t *parse_selection(cel_t *self, cel_node_t *target, size_t at)
{
    const cel_token_t token = self->token;
    cel_node_t *node;

    if (token.type != TOKEN_IDENT && token.type != TOKEN_QUOTED_IDENT) {
        cel_fail(self, token.at, "a field name is missing here");
        return NULL;
    }
    node = make_node(self, CEL_SELECT, at);
    if (!node || cel_lex(self))
        return NULL;
    node->text = token.text;
    node->len = token.len;
    node->first = target;
    if (token.type == TOKEN_IDENT && accept_sign(self, "(")) {
        node->op = CEL_METHOD;
        if (!parse_items(self, ")", false, false, &target->next))
            return NULL;
    }
    return self->error->text[0] ? NULL : node;
}

static cel_node_t *parse_member(cel_t *self)
{
    cel_node_t *node = parse_primary(self), *index;

    while (node) {
        size_t at = self->token.at;

        if (accept_sign(self, ".")) {
            node = parse_selection(self, node, at);
        } else if (accept_sign(self, "[")) {
            index = parse_expression(self);
            node = index && expect_sign(self, "]") ? make_pair(self, CEL_INDEX, at, node, index)
                                                   : NULL;
        } else {
            break;
        }
    }
    return self->error->text[0] ? NULL : node;
}

/* -9223372036854775808 is a number, although 9223372036854775808 is out of range. */
static cel_node_t *parse_lowest(cel_t *self, size_t at)
{
    cel_node_t *node = make_node(self, CEL_CONSTANT, at);

    if (!node || cel_lex(self))
        return NULL;
    node->type = CEL_INT;
    node->value.integer = INT64_MIN;
    return node;
}

static cel_node_t *parse_unary(cel_t *self)
{
    size_t at = self->token.at;
    cel_op_t op = is_sign(self, "!") ? CEL_NOT : CEL_NEGATE;
    cel_node_t *node = NULL, *operand;

    if (!is_sign(self, "!") && !is_sign(self, "-"))
        return parse_member(self);
    if (++self->depth > CEL_DEPTH_MAX) {
        cel_fail(self, at, "the expression is nested more than %d deep", CEL_DEPTH_MAX);
        return NULL;
    }
    if (!cel_lex(self)) {
        if (op == CEL_NEGATE && self->token.type == TOKEN_INT
            && self->token.value.natural == (uint64_t)INT64_MAX + 1) {
            node = parse_lowest(self, at);
        } else {
            operand = parse_unary(self);
            node = operand ? make_node(self, op, at) : NULL;
            if (node)
                node->first = operand;
        }
    }
    self->depth--;
    return node;
}

/* Parse left associative operators from this level of precedence on; level 0 binds loosest. */
static cel_node_t *parse_binary(cel_t *self, size_t level)
{
    static const struct {
        const char *sign;
        cel_op_t op;
    } levels[][8] = {
        {{"||", CEL_OR}},
        {{"&&", CEL_AND}},
        {{"==", CEL_EQ},
         {"!=", CEL_NE},
         {"<", CEL_LT},
         {"<=", CEL_LE},
         {">", CEL_GT},
         {">=", CEL_GE},
         {"in", CEL_IN}},
        {{"+", CEL_ADD}, {"-", CEL_SUBTRACT}},
        {{"*", CEL_MULTIPLY}, {"/", CEL_DIVIDE}, {"%", CEL_MODULO}},
    };
    cel_node_t *node;
    size_t i;

    if (level == sizeof(levels) / sizeof(levels[0]))
        return parse_unary(self);
    node = parse_binary(self, level + 1);
    while (node) {
        size_t at = self->token.at;

        for (i = 0; levels[level][i].sign && !is_sign(self, levels[level][i].sign); i++)
            ;
        if (!levels[level][i].sign || !accept_sign(self, levels[level][i].sign))
            break;
        node = make_pair(self, levels[level][i].op, at, node, parse_binary(self, level + 1));
    }
    return self->error->text[0] ? NULL : node;
}

static cel_node_t *parse_expression(cel_t *self)
{
    size_t at = self->token.at;
    cel_node_t *node, *yes, *no;

    if (++self->depth > CEL_DEPTH_MAX) {
        cel_fail(self, at, "the expression is nested more than %d deep", CEL_DEPTH_MAX);
        return NULL;
    }
    node = parse_binary(self, 0);
    if (node && accept_sign(self, "?")) {
        yes = parse_binary(self, 0);
        no = yes && expect_sign(self, ":") ? parse_expression(self) : NULL;
        node = no ? make_pair(self, CEL_CONDITION, at, node, yes) : NULL;
        if (node)
            yes->next = no;
    }
    self->depth--;
    return self->error->text[0] ? NULL : node;
}

int cel_parse(cel_t **ret_cel, const char *source, size_t len, cel_error_t *error)
{
    cel_t *self;

    memset(error, 0, sizeof(*error));
    if (len > CEL_SOURCE_MAX) {
        snprintf(error->text, sizeof(error->text), "is %zu bytes long: the limit is %d bytes", len,
                 CEL_SOURCE_MAX);
        return 1;
    }
    self = calloc(1, sizeof(*self));
    if (!self)
        return -ENOMEM;
    self->source = self->at = source;
    self->end = source + len;
    self->error = error;
    self->arena_size = CEL_NODES_MAX * sizeof(cel_node_t) + 20 * CEL_SOURCE_MAX;
    self->arena = malloc(self->arena_size);
    if (!self->arena) {
        cel_destroy(&self);
        return -ENOMEM;
    }
    if (!cel_lex(self))
        self->root = parse_expression(self);
    if (self->root && self->token.type != TOKEN_END)
        cel_fail(self, self->token.at, "the expression should have ended before this");
    if (error->text[0] || !self->root) {
        cel_destroy(&self);
        return 1;
    }
    self->source = self->at = self->end = NULL; /* owned by the caller */
    *ret_cel = self;
    return 0;
}

void cel_destroy(cel_t **self_p)
{
    if (!*self_p)
        return;
    free((*self_p)->arena);
    free(*self_p);
    *self_p = NULL;
}

const cel_node_t *cel_root(const cel_t *self)
{
    return self->root;
}
