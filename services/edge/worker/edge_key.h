/* The edge's own key (postern_state_key): it seals the state file, and what other purposes need
 * is derived from it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include <sodium.h>

/* Read it. NGX_OK | NGX_ERROR, logged. */
ngx_int_t edge_key_load(ngx_log_t *log);

/* crypto_secretbox_KEYBYTES of it: for the state file's records. */
const u_char *edge_key(void);

/* prefix and 32 digits that only edges with this key have. */
void edge_key_name(const char *prefix, char *out, size_t size);

/* A key of 32 bytes for another purpose than the state file: the caller wipes it. */
void edge_key_derive(const char *purpose, u_char *out);
