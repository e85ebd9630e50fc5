/* The head of an upstream's response: status line and fields up to the empty line (RFC 9110, RFC
 * 9112). It is checked before nginx parses it, since nginx accepts much that is not HTTP. No nginx
 * in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAD_FIELDS_MAX = 1000, HEAD_OPTIONS_MAX = 32 };

typedef enum { HEAD_MORE, HEAD_WHOLE, HEAD_BAD } head_verdict_t;

typedef struct head {
    size_t len;     /* of the complete lines; at the end, of the whole head */
    size_t seen;    /* scanned up to here: no line ends between len and seen */
    int64_t length; /* Content-Length; -1: it has none */
    unsigned status;
    size_t status_line; /* bytes of its line, without the line's end */
    unsigned fields;
    size_t names;     /* bytes of their names */
    size_t largest;   /* of these, and of their values */
    unsigned options; /* count of names listed in its Connection fields */
    bool stray;       /* the current line has a control character before its end */
    bool chunked;
    unsigned upgrades; /* of 101: count of its Upgrade fields */
    bool websocket;    /* of 101: its only Upgrade field is "websocket" */
    bool hop;          /* has hop-by-hop fields, which head_end_hop removes */
} head_t;

/* Prepare for the first byte of a response. */
void head_begin(head_t *self);

/* Scan a response. data points to its first byte, len counts what has arrived; call again with the
 * same data when more has. HEAD_BAD: *ret_why says why, in words. No byte is scanned twice, however
 * small the pieces are. */
head_verdict_t head_scan(head_t *self, const char *data, size_t len, const char **ret_why);

/* Is this an interim response (1xx except 101), which another response follows? */
bool head_is_interim(const head_t *self);

typedef struct head_field {
    const char *name, *value; /* point into the head; not terminated, without the line's end */
    size_t name_len, value_len;
} head_field_t;

/* Length of a complete head's first line, with its end. */
size_t head_status_len(const char *data, size_t len);

/* Iterate over the fields of a complete head: *at is 0 before the first. False: there are no
 * more. */
bool head_next(const char *data, size_t len, size_t *at, head_field_t *ret_field);

/* The same at less cost, for a head that head_scan accepted: *at begins as head_status_len. lower
 * takes the name in lower case, *ret_hash its ngx_hash. The caller may overwrite the byte after the
 * name and the one after the value: *at is behind both. */
bool head_next_folded(const char *data, size_t len, size_t *at, head_field_t *ret_field,
                      char *lower, uintptr_t *ret_hash);

/* Is the name of a field a token (RFC 9110 5.6.2)? */
bool head_is_token(const char *name, size_t len);

/* Has the value a control character other than a tab, which RFC 9110 5.5 forbids? */
bool head_has_control(const char *value, size_t len);

/* Compare the field's name without regard to case. */
bool head_field_is(const head_field_t *field, const char *name);

/* An element of a Connection field; not terminated. */
typedef struct {
    const char *name;
    size_t len;
} head_option_t;

/* Iterate over a comma-separated list, skipping empty elements (RFC 9110 5.6.1); *at is 0 before
 * the first. False: there are no more. */
bool head_next_option(const char *list, size_t len, size_t *at, head_option_t *ret_option);

/* Does the option name a field? False for close and keep-alive, which are the usual ones. */
bool head_option_names(const head_option_t *option);

/* May a field of a 1xx response go to the client? Not hop-by-hop fields, those that frame a body,
 * X-Accel-*, nor Date and Server, which the edge sets itself. */
bool head_field_passes(const head_field_t *field);

/* Remove hop-by-hop fields (RFC 9110 7.6.1) from a complete head of a final response or a 101:
 * those that are hop-by-hop by definition, and those that Connection names. Connection itself and
 * the fields that frame the body stay: nginx's proxy needs them and drops them. 101 keeps its
 * Upgrade. The remaining head is moved to the end of the old one; returns by how many bytes it
 * begins later. */
size_t head_end_hop(head_t *self, char *data);
