/* The head of an upstream's answer: status line and fields up to the empty line (RFC 9110, RFC
 * 9112). It is judged before nginx reads it, which takes much that is no HTTP. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_FIELDS_MAX = 1000, HEAD_OPTIONS_MAX = 32 };

typedef enum { HEAD_MORE, HEAD_WHOLE, HEAD_BAD } head_verdict_t;

typedef struct head {
    size_t len;     /* of the lines that are whole; of the head, once it is */
    size_t seen;    /* no line ends between len and here */
    int64_t length; /* Content-Length; -1: it has none */
    unsigned status;
    unsigned fields;
    unsigned options; /* that its Connection fields list */
    bool stray;       /* a control character that is not of its end, in the line that comes */
    bool chunked;
    unsigned upgrades; /* of 101: its Upgrade fields */
    bool websocket;    /* and they say this, once */
    bool hop;          /* some of its fields end here */
} head_t;

/* For the first byte of an answer. */
void head_begin(head_t *self);

/* data is the answer from its first byte, len what has come of it; called again when more has.
 * HEAD_BAD: why says it in words. What of it has been seen is not looked at again, however small
 * the pieces are. */
head_verdict_t head_scan(head_t *self, const char *data, size_t len, const char **ret_why);

/* 1xx, but 101: another answer follows. */
bool head_is_interim(const head_t *self);

typedef struct head_field {
    const char *name, *value; /* of a whole head: neither has a line end in it */
    size_t name_len, value_len;
} head_field_t;

/* Of a whole head: its first line, with its end. */
size_t head_status_len(const char *data, size_t len);

/* The fields of a whole head, one after the other: *at is 0 before the first. False: there are no
 * more. */
bool head_next(const char *data, size_t len, size_t *at, head_field_t *ret_field);

/* The same of one that was let through, at less cost: *at is where the first begins. lower is the
 * name in lower case, its hash that of nginx's tables. The bytes behind name and value are
 * nobody's; then *at is behind them. */
bool head_next_folded(const char *data, size_t len, size_t *at, head_field_t *ret_field,
                      char *lower, uintptr_t *ret_hash);

/* Of a field's value: a control character other than a tab, which no value may have (RFC 9110 5.5).
 */
bool head_has_control(const char *value, size_t len);

bool head_field_is(const head_field_t *field, const char *name); /* in any case */

/* What a Connection field lists. */
typedef struct {
    const char *name;
    size_t len;
} head_option_t;

/* The next of a list with commas, which may have empty elements (RFC 9110 5.6.1); *at is 0 before
 * the first. False: there are no more. */
bool head_next_option(const char *list, size_t len, size_t *at, head_option_t *ret_option);

/* close and keep-alive, which nearly all say, name no field that has to be looked for. */
bool head_option_names(const head_option_t *option);

/* May a field of a 1xx go on to the client? Not what is of the connection, frames a body, steers a
 * proxy, or that the edge says itself. */
bool head_field_passes(const head_field_t *field);

/* Takes the fields out of a whole head, no 1xx but 101, that are of the connection it came by (RFC
 * 9110 7.6.1): those of that nature, and those that its Connection names. Connection itself and
 * what frames the body stay: they are for whoever reads the head next, and do not go further. 101
 * keeps its Upgrade. The rest moves to the end of the head; the result is by how many bytes it
 * begins later. */
size_t head_end_hop(head_t *self, char *data);
