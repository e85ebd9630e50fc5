/* An answer of postern-identity as it came, [outcome][body] of proto/WIRE.md, and what a question
 * says about itself, its header. Bytes from another process: nothing is believed. No sockets and no
 * nginx in here. */
#pragma once

#include "services/edge/control/ask_packet.h"

#include <msgpack.h>

/* What it says, with the question's number. The body is a map within the caps of
 * common/codec/pack.h and within ASK_BODY_MAX where code is 0. An answer that is none is
 * ERR_INTERNAL. */
void ask_reply_read(ask_told_t *out, uint64_t number, const void *outcome, size_t outcome_len,
                    const void *body, size_t body_len);

/* Append the header of a request. 0 | -ENOMEM. */
int ask_header_pack(msgpack_sbuffer *out, const char *id, const char *account, int64_t left_ms,
                    const char *edge);
