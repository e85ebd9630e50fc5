/* msgpack on the wire, jansson in memory. Depth, size and item caps hold for every decoder. */
#pragma once

#include <jansson.h>
#include <msgpack.h>
#include <stddef.h>

enum {
    PACK_DEPTH_MAX = 32,
    PACK_BYTES_MAX = 16 << 20,
    PACK_ITEMS_MAX = 1 << 20,
    PACK_DECODED_MAX = 64 << 20 /* bytes of memory for the values of one message */
};

/* Append value as msgpack. 0 | -EMSGSIZE (deeper than PACK_DEPTH_MAX) | -ENOMEM. */
int pack_json(msgpack_sbuffer *out, const json_t *value);

/* As pack_json, into a message that is being packed. */
int pack_value(msgpack_packer *packer, const json_t *value);

/* Decode exactly one value that fills len bytes. Maps need string keys; binary, extensions, invalid
 * UTF-8, NUL inside keys and repeated keys are refused. 0 | -EBADMSG | -EMSGSIZE | -ENOMEM. */
int unpack_json(const void *data, size_t len, json_t **ret_value);

/* Make a body of JSON text that goes to a client as it is: begin, append the text to out, which is
 * empty before, end. It travels as one msgpack binary. 0 | -ENOMEM. */
int pack_text_begin(msgpack_sbuffer *out);
void pack_text_end(msgpack_sbuffer *out);

/* Turn a service's body into JSON text without building the value. Same caps and refusals as
 * unpack_json, except that repeated keys are passed on, and that a binary is taken as JSON text.
 * The caller frees *ret_text, which ends with NUL. 0 | -EBADMSG | -EMSGSIZE | -ENOMEM. */
int unpack_text(const void *data, size_t len, char **ret_text);

/* Check a message without building the value: same caps as unpack_json, binary allowed. 0 |
 * -EBADMSG | -EMSGSIZE. */
int pack_check(const void *data, size_t len);
