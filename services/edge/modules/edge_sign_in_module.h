/* The modules that sign people in are one, under several names. */
#pragma once

#include "services/edge/modules/edge_sign_in.h"

/* Define module_<name>, the module of that name and id; behind them what else the one sets that
 * has what all share. */
#define SIGN_IN_MODULE(name, id, ...)                                                             \
    static void *                                                                                 \
    parse_##name(const msgpack_object *document, bool *bad)                                       \
    {                                                                                             \
        return sign_in_parse(document, #name, bad);                                               \
    }                                                                                             \
                                                                                                  \
                                                                                                  \
    static void                                                                                   \
    describe_##name(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)                           \
    {                                                                                             \
        edge_sign_in_describe(pk, r, ctx, id);                                                    \
    }                                                                                             \
                                                                                                  \
                                                                                                  \
    const edge_module_t  module_##name = {                                                        \
        .parse = parse_##name,                                                                    \
        .free = sign_in_free,                                                                     \
        .state_size = sizeof(edge_sign_in_state_t),                                               \
        .prepare = edge_sign_in_prepare,                                                          \
        .run = edge_sign_in_run,                                                                  \
        .abort = edge_sign_in_abort,                                                              \
        .judge = edge_sign_in_judge,                                                              \
        .clean = edge_sign_in_clean,                                                              \
        .describe = describe_##name,                                                              \
        .counters = edge_sign_in_counters,                                                        \
        __VA_ARGS__                                                                               \
    }
