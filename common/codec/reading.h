/* What postern-saml and postern-xml agree on. A packet on the socket between them is one byte with
 * two files: where a question is to be read from, and where its answer is to be written to. Both
 * are msgpack: {verb, body}, and {code, msg, body}. An answer that ends early is none. */
#pragma once

enum {
    READING_CHILDREN_MAX = 32,        /* messages under way at once */
    READING_QUESTION_MAX = 768 << 10, /* bytes */
    READING_ANSWER_MAX = 512 << 10
};
