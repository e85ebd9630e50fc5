/* One question and its answer, as they go over the pipes between postern-saml and a child of this
 * program: msgpack. */
#pragma once

#include <msgpack.h>
#include <stddef.h>

/* question: {verb, body}. Append {code, msg, body} to out: code 0, or one of proto/errors.def with
 * a line about it. 0 | -ENOMEM. */
int answer_question(const void *question, size_t len, msgpack_sbuffer *out);

/* Start the libraries, and have each algorithm used once, so that children find all of it in
 * memory. 0 | fault. */
int answer_start(void);
