/* The edge's own key (postern_state_key): it seals the state file; keys for other purposes are
 * derived from it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include <sodium.h>

/* Read the key from its file. NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_key_load(ngx_log_t *log);

/* The key itself, crypto_secretbox_KEYBYTES long, for the state file's records. Borrowed. */
const u_char *edge_key(void);

/* A name for this edge: prefix and 32 hexadecimal digits that are derived from prefix and key, so
 * that only edges with the same key have the same name. size is out's. */
void edge_key_name(const char *prefix, char *out, size_t size);

/* Derive a key of 32 bytes for another purpose than the state file. The caller wipes it. */
void edge_key_derive(const char *purpose, u_char *out);
