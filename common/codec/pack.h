/* msgpack on the wire, jansson in memory. Depth, size and item caps hold for every decoder. */
#pragma once

#include <jansson.h>
#include <msgpack.h>
#include <stddef.h>

enum { PACK_DEPTH_MAX = 32, PACK_BYTES_MAX = 16 << 20, PACK_ITEMS_MAX = 1 << 20 };

/* Append value. 0 | -EMSGSIZE (deeper than PACK_DEPTH_MAX) | -ENOMEM. */
int pack_json(msgpack_sbuffer *out, const json_t *value);

/* The same as part of something else. */
int pack_value(msgpack_packer *packer, const json_t *value);

/* Decode exactly one value that fills len bytes. Maps need string keys; binary, extensions, invalid
 * UTF-8, NUL inside keys and repeated keys are refused. 0 | -EBADMSG | -EMSGSIZE | -ENOMEM. */
int unpack_json(const void *data, size_t len, json_t **ret_value);

/* JSON text that is ready for a client, as a reply's body: begin, append the text to out, which is empty before, end. It is a
 * msgpack binary. 0 | -ENOMEM. */
int pack_text_begin(msgpack_sbuffer *out);
void pack_text_end(msgpack_sbuffer *out);

/* The same value as JSON text, without building it: what a service answered, on its way to a client. Same caps and
 * refusals, but that repeated keys are passed on, and that a binary is JSON text already. The caller frees *ret_text, which ends with NUL. */
int unpack_text(const void *data, size_t len, char **ret_text);

/* Walk without building: same caps as unpack_json, binary allowed. 0 | -EBADMSG | -EMSGSIZE. */
int pack_check(const void *data, size_t len);
