/* webhook_verification: only what the sender of webhooks signed goes upstream. The rules are
 * webhook.c's; here the request waits for its body, which they need most of the time. */
#include "common/base/err.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_text.h"
#include "services/edge/control/edge_signers.h"
#include "services/edge/modules/module.h"
#include "services/edge/modules/webhook.h"
#include "services/edge/worker/edge_conf.h"

#define ME  MODULE_WEBHOOK_VERIFICATION

enum { KEY_WAIT_MS = SIGNERS_WAIT_MS + 1000 };

enum {
    VERIFIED, ANSWERED, UNSIGNED, MALFORMED, STALE, MISMATCHED, TOO_LARGE, NO_ROOM,
    UNTRUSTED, UNREACHED
};

static const char *const  counters[] = {
    "verified", "answered", "unsigned", "malformed", "stale", "mismatched",
    "too_large", "no_room", "untrusted", "unreached", NULL
};

/* The verdicts that deny: what the log says, and what counts them. */
static const struct {
    const char  *why;
    unsigned     counter;
} denials[] = {
    [WEBHOOK_UNSIGNED] = { "it has no signature", UNSIGNED },
    [WEBHOOK_MALFORMED] = { "its signature, or what belongs to it, has not the "
                            "provider's form", MALFORMED },
    [WEBHOOK_STALE] = { "it was signed at another time", STALE },
    [WEBHOOK_MISMATCHED] = { "its signature is not of this content and secret",
                             MISMATCHED },
    [WEBHOOK_UNTRUSTED] = { "the certificate that it names is not its provider's",
                            UNTRUSTED },
};

typedef struct {
    int64_t           now_ms;    /* when the request came; 0: it has not been looked at */
    unsigned          passed:1;  /* the request may go upstream, or is answered */
    unsigned          asked:1;   /* it has waited for the key of its signer */
    const char       *body;      /* in one piece; NULL: not yet */
    size_t            body_len;
    edge_ctx_t       *ctx;
    signers_waiter_t  waiter;
    webhook_answer_t  answer;
} verification_t;


static ngx_uint_t
is_named(const ngx_table_elt_t *header, webhook_text_t name)
{
    return header->key.len == name.len
           && ngx_strncasecmp(header->key.data, (u_char *) name.at, name.len)
              == 0;
}


static size_t
find_headers(void *arg, webhook_text_t name, webhook_text_t *out, size_t max)
{
    size_t               n = 0;
    ngx_uint_t           i;
    ngx_list_part_t     *part;
    ngx_table_elt_t     *header;
    ngx_http_request_t  *r = arg;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (edge_header_hidden(&header[i]) || !is_named(&header[i], name)) {
                continue;
            }
            if (n < max) {
                out[n] = (webhook_text_t) { (char *) header[i].value.data,
                                            header[i].value.len };
            }
            n++;
        }
    }
    return n;
}


/* Path and query as the client sent them: r->unparsed_uri has them as they go upstream. The request
 * line of HTTP/2 is nginx's, of :method and :path. */
static webhook_text_t
target_of(ngx_http_request_t *r)
{
    u_char  *at = r->request_line.data, *end = at + r->request_line.len;
    u_char  *mark;

    while (at < end && *at != ' ') {
        at++;
    }
    while (at < end && *at == ' ') {
        at++;
    }
    while (end > at && end[-1] != ' ') {
        end--;   /* the version */
    }
    while (end > at && end[-1] == ' ') {
        end--;
    }
    if (at < end && *at != '/') {   /* absolute form, RFC 9112 3.2.2 */
        mark = ngx_strlcasestrn(at, end, (u_char *) "://", 2);
        at = mark ? mark + 3 : end;
        while (at < end && *at != '/' && *at != '?') {
            at++;
        }
    }
    return (webhook_text_t) { (char *) at, end - at };
}


static webhook_text_t
text_of(const ngx_str_t *text)
{
    return (webhook_text_t) { (char *) text->data, text->len };
}


static void
wake(signers_waiter_t *waiter)
{
    verification_t  *state = ngx_queue_data(waiter, verification_t, waiter);

    edge_module_resume(state->ctx);
}


/* A request waits once: where the key is not there then, others have taken its place since. */
static webhook_verdict_t
find_key(void *arg, const char *url, EVP_PKEY **ret_key)
{
    edge_ctx_t          *ctx = edge_ctx(arg);
    verification_t      *state = edge_module_state_if_any(ctx, ME);
    signers_state_t      found;
    signers_who_t        who = {
        .account = ctx->route->account_id ? ctx->route->account_id : "",
        .client = edge_share_alone(arg, ctx->client),
        .percent = (uint32_t) edge_conf()->client_portion,
    };

    state->ctx = ctx;
    state->waiter.wake = wake;
    found = edge_signers_look(&who, url, &state->waiter, ret_key);
    switch (found) {
    case SIGNERS_KEY:
        return WEBHOOK_VERIFIED;
    case SIGNERS_REFUSED:
        return WEBHOOK_UNTRUSTED;
    case SIGNERS_WAIT:
        if (!state->asked) {
            state->asked = 1;
            return WEBHOOK_NEEDS_KEY;
        }
        signers_leave(&state->waiter);
        return WEBHOOK_UNREACHED;
    default:
        return WEBHOOK_UNREACHED;
    }
}


static void
describe_request(ngx_http_request_t *r, const edge_ctx_t *ctx,
    const verification_t *state, webhook_request_t *out)
{
    *out = (webhook_request_t) {
        .method = text_of(&r->method_name),
        .authority = text_of(&ctx->authority),
        .target = target_of(r),
        .now_ms = state->now_ms,
        .headers = find_headers,
        .key = find_key,
        .arg = r,
    };
    if (r->headers_in.content_type) {
        out->type = text_of(&r->headers_in.content_type->value);
    }
}


/* The body in one piece: of one that came in several, a copy. edge_module_read_body has bounded it,
 * with room for the copy, and kept it in memory. */
static ngx_int_t
gather_body(ngx_http_request_t *r, webhook_request_t *request)
{
    u_char       *p;
    ngx_chain_t  *cl, *body = r->request_body ? r->request_body->bufs : NULL;

    request->body = "";
    request->body_len = 0;
    for (cl = body; cl; cl = cl->next) {
        if (cl->buf->in_file) {
            return NGX_DECLINED;
        }
        request->body_len += cl->buf->last - cl->buf->pos;
    }
    if (request->body_len == 0) {
        return NGX_OK;
    }
    if (body->next == NULL) {
        request->body = (char *) body->buf->pos;
        return NGX_OK;
    }
    p = ngx_palloc(r->pool, request->body_len);
    if (p == NULL) {
        return NGX_ERROR;
    }
    request->body = (char *) p;
    for (cl = body; cl; cl = cl->next) {
        if (cl->buf->last > cl->buf->pos) {   /* the last one of chunks has no memory */
            p = ngx_cpymem(p, cl->buf->pos, cl->buf->last - cl->buf->pos);
        }
    }
    return NGX_OK;
}


/* Content handler: an answer of status 200, or the status of the edge's page without its text. */
static ngx_int_t
send_answer(ngx_http_request_t *r)
{
    ngx_int_t        rc;
    edge_ctx_t      *ctx = edge_ctx(r);
    verification_t  *state = edge_module_state_if_any(ctx, ME);
    const header_t   no_sniffing = {
        .name = "X-Content-Type-Options", .name_len = 22,
        .lower = "x-content-type-options", .value = "nosniff", .value_len = 7
    };

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    if (edge_header_answer(r, &no_sniffing) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_text_send(r, ctx->error ? ctx->status : NGX_HTTP_OK, state->answer.type,
                          (u_char *) state->answer.body, state->answer.len);
}


static intptr_t
deny_webhook(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config,
    webhook_verdict_t verdict)
{
    intptr_t                   rc;
    const webhook_provider_t  *row = webhook_provider(config);

    edge_module_count(ME, denials[verdict].counter);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: no webhook of %s: %s", row->name,
                  denials[verdict].why);
    if (row->hand != WEBHOOK_HAND_INTENT) {
        return edge_deny(r, ctx, ME, ERR_EDGE_WEBHOOK, 0);
    }
    /* this sender tries what is done with wrong signatures: 401 without a body */
    rc = edge_deny(r, ctx, ME, ERR_EDGE_WEBHOOK, NGX_HTTP_UNAUTHORIZED);
    r->content_handler = send_answer;
    return rc;
}


static intptr_t
deny_size(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_module_count(ME, TOO_LARGE);
    return edge_deny(r, ctx, ME, ERR_EDGE_WEBHOOK_SIZE, 0);
}


/* 503: senders try again. */
static intptr_t
deny_for_now(ngx_http_request_t *r, edge_ctx_t *ctx, unsigned counter, const char *why)
{
    edge_module_count(ME, counter);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0, "postern: %s", why);
    return edge_deny(r, ctx, ME, ERR_EDGE_MODULE, 0);
}


static int64_t
now_ms(void)
{
    ngx_time_t  *now = ngx_timeofday();

    return (int64_t) now->sec * 1000 + now->msec;
}


/* Once for a request, also where it waits for a key afterwards. NGX_OK | what is to be made of a
 * body that is not there: see deny_bodiless. */
static intptr_t
read_body(ngx_http_request_t *r, edge_ctx_t *ctx, verification_t *state,
    webhook_request_t *request)
{
    intptr_t  rc;

    if (state->body == NULL) {
        rc = edge_module_read_body(r, ctx, ME, WEBHOOK_BODY_MAX, 0);
        if (rc == NGX_OK) {
            rc = gather_body(r, request);
        }
        if (rc != NGX_OK) {
            return rc;
        }
        state->body = request->body;
        state->body_len = request->body_len;
    }
    request->body = state->body;
    request->body_len = state->body_len;
    return NGX_OK;
}


static intptr_t
deny_bodiless(ngx_http_request_t *r, edge_ctx_t *ctx, intptr_t rc)
{
    switch (rc) {
    case NGX_DECLINED:
        return deny_size(r, ctx);
    case NGX_BUSY:
        return deny_for_now(r, ctx, NO_ROOM, "no room for the body of a webhook");
    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    default:
        return rc;   /* it waits */
    }
}


/* Headers alone are enough to deny most of what is not signed: its body is not read. */
static intptr_t
verify_webhook(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    intptr_t            rc;
    verification_t     *state = edge_module_state(r, ctx, ME);
    webhook_verdict_t   verdict;
    webhook_request_t   request;

    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (state->now_ms == 0) {
        state->now_ms = now_ms();
    }
    if (ctx->upgrade) {
        /* what follows the upgrade nobody has signed */
        return deny_webhook(r, ctx, config, WEBHOOK_MALFORMED);
    }
    describe_request(r, ctx, state, &request);
    verdict = webhook_judge(config, &request, &state->answer);
    if (verdict == WEBHOOK_NEEDS_BODY) {
        rc = read_body(r, ctx, state, &request);
        if (rc != NGX_OK) {
            return deny_bodiless(r, ctx, rc);
        }
        verdict = webhook_judge(config, &request, &state->answer);
    }
    if (verdict == WEBHOOK_NEEDS_KEY) {
        return edge_module_suspend(r, ctx, ME, KEY_WAIT_MS);
    }
    if (verdict == WEBHOOK_UNREACHED) {
        return deny_for_now(r, ctx, UNREACHED,
                            "the certificate of a webhook's signer cannot be had");
    }
    if (verdict != WEBHOOK_VERIFIED && verdict != WEBHOOK_ANSWERED) {
        return deny_webhook(r, ctx, config, verdict);
    }
    state->passed = 1;
    edge_module_count(ME, verdict == WEBHOOK_ANSWERED ? ANSWERED : VERIFIED);
    if (verdict == WEBHOOK_ANSWERED) {
        r->content_handler = send_answer;
        return NGX_OK;
    }
    return NGX_DECLINED;
}


/* Nobody wakes it any more. */
static void
leave_signers(void *data)
{
    verification_t  *state = data;

    signers_leave(&state->waiter);
}


static void
abort_webhook(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    verification_t  *state = edge_module_state_if_any(ctx, ME);

    (void) r;
    if (state) {
        leave_signers(state);
    }
}


/* What was not verified by now would pass by what the route said before; an upgraded stream could
 * stay for ever. Other requests may finish. */
static uintptr_t
judge_webhook(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    const route_t         *began = ctx->route;
    const verification_t  *state = edge_module_state_if_any(ctx, ME);

    if ((began->enabled & (1u << ME))
        && webhook_same(config, began->configs[ME]))
    {
        return 0;   /* it was verified by this, or will be */
    }
    return state && state->passed
           && (r->upstream == NULL || !r->upstream->upgrade)
           ? 0 : ERR_EDGE_CHANGED;
}


static void
describe_verification(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    const verification_t  *state = edge_module_state_if_any(ctx, ME);

    (void) r;
    if (state && state->passed) {
        EVENT_WORD(EVENT_WEBHOOK_VERIFICATION_DECISION, "allow");
    }
}


const edge_module_t  module_webhook_verification = {
    .parse = webhook_parse,
    .free = webhook_free,
    .beyond = webhook_beyond,
    .state_size = sizeof(verification_t),
    .run = verify_webhook,
    .clean = leave_signers,
    .abort = abort_webhook,
    .judge = judge_webhook,
    .describe = describe_verification,
    .counters = counters,
};
