/* One API request from its head to its answer: checks that need no service (call_check.c), then
 * authentication, the body, and the request on the bus. */
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/codec/pack.h"
#include "common/base/quote.h"
#include "services/gateway/gateway.h"

#include <string.h>

void call_destroy(call_t **self_p)
{
    call_t *self = *self_p;

    if (!self)
        return;
    free(self->path);
    free(self->text);
    json_decref(self->actor);
    json_decref(self->query);
    json_decref(self->request);
    msgpack_sbuffer_destroy(&self->packed);
    json_decref(self->answer);
    free(self);
    *self_p = NULL;
}

void call_answer(call_t *call, unsigned status, json_t *body)
{
    call->status = status;
    call->answer = body;
    call->state = ANSWERED;
}

static void refuse_with(call_t *call, int code, const char *msg, json_t *details)
{
    const outcome_t *row = outcome_find(code);
    json_t *body = json_object();
    char text[512];

    if (!row)
        row = outcome_find(ERR_INTERNAL);
    if (code != ERR_UNKNOWN_PATH && code != ERR_WRONG_METHOD)
        json_object_set_new(body, "error_code", json_sprintf("ERR_POSTERN_%d", row->code));
    json_object_set_new(body, "status_code", json_integer(row->status));
    quote_plain(text, sizeof(text), msg && *msg ? msg : row->text);
    json_object_set_new(body, "msg", json_string(text));
    if (!json_is_object(details)) {
        json_decref(details);
        details = json_object();
    }
    json_object_set_new(details, "operation_id", json_string(call->operation_id));
    json_object_set_new(body, "details", details);
    call_answer(call, (unsigned)row->status, body);
}

void call_refuse(call_t *call, int code, const char *field, const char *msg)
{
    json_t *details = json_object();

    if (field)
        json_object_set_new(details, field, json_string(msg ? msg : outcome_find(code)->text));
    refuse_with(call, code, msg, details);
}

void call_refuse_path(call_t *call, int code, const char *msg)
{
    char path[512];

    quote_plain(path, sizeof(path), call->path);
    refuse_with(call, code, msg, json_pack("{s:s}", "path", path));
}

/* Answer with the outcome of a service, unchanged. */
static void refuse_outcome(call_t *call, const json_t *outcome)
{
    refuse_with(call, (int)json_integer_value(json_object_get(outcome, "code")),
                json_string_value(json_object_get(outcome, "msg")),
                json_deep_copy(json_object_get(outcome, "details")));
}

/* Does the request's body, if it has one, have a document that the service needs? */
static bool has_document(const call_t *call)
{
    unsigned body = call->target.operation ? call->target.operation->body : BODY_NO_BODY;

    return body && !(body & BODY_ANY_BODY);
}

/* The body that the service gets, but for the document in a body that is parsed by documents.h. */
static json_t *make_request(call_t *call, json_t *document)
{
    const target_t *target = &call->target;
    const char *if_match = http_header(call, "If-Match");
    json_t *request = json_pack("{s:o?, s:o, s:s?}", "document", document, "query",
                                take(call->query), "if_match", if_match);

    if (*target->id)
        json_object_set_new(request, "id", json_string(target->id));
    if (*target->part)
        json_object_set_new(request, OPERATION_PART, json_string(target->part));
    if (*target->member)
        json_object_set_new(request, "member", json_string(target->member));
    if (*target->parent)
        json_object_set_new(request, target->parent_key, json_string(target->parent));
    if (target->operation->answer == ANSWER_OBJECTS && *target->parent)
        json_object_set_new(request, "within", json_string(target->parent_key));
    json_object_set_new(request, "path", json_string(call->path));
    json_object_set_new(request, "base", json_string(call->base));
    return request;
}

/* Make the service's request of a call: at once where its body is small, else when the thread has
 * parsed it. A body that cannot be read is answered. */
static void read_document(call_t *call)
{
    body_t *body = http_body(call);
    bool is_module = call->target.operation->bit == OPERATION_REPLACE_MODULE;
    json_t *document = NULL, *request;
    char msg[DOCUMENT_MSG] = "";
    int r = 0;

    if (has_document(call) && body->len > BODY_SMALL) {
        request = make_request(call, NULL);
        call->state = PARSING;
        zhashx_update(call->gateway->calls, call->operation_id, call);
        documents_put(call->gateway->documents, call->account, call->operation_id, body, is_module,
                      &request);
        return;
    }
    if (has_document(call) && !body->len && call->target.operation->body & BODY_OR_EMPTY)
        document = json_object();
    else if (has_document(call))
        r = document_parse(body->bytes, body->len, is_module, &document, msg);
    if (r)
        call_refuse(call, r, NULL, *msg ? msg : NULL);
    else
        call->request = make_request(call, document);
}

static void answer_root(call_t *call)
{
    const char *base = call->base;
    json_t *uris = json_object();

    for (const kind_t *kind = kind_all(); kind->name; kind++)
        if (!kind->parent_key && kind->operations & OPERATION_LIST)
            json_object_set_new(uris, kind->name, json_sprintf("%s%s", base, kind->path));
    call_answer(call, 200, json_pack("{s:s+, s:o}", "uri", base, "/", "subresource_uris", uris));
}

static const char ERRORS_PATH[] = "/errors/ERR_POSTERN_";

/* GET /errors/ERR_POSTERN_nnn: what the code means. */
static void answer_error(call_t *call)
{
    const char *digits = call->path + strlen(ERRORS_PATH);
    const outcome_t *row = strspn(digits, "0123456789") == strlen(digits) && strlen(digits) == 3
                               ? outcome_find(atoi(digits))
                               : NULL;

    if (row)
        call_answer(call, 200,
                    json_pack("{s:s+, s:i, s:s, s:s}", "error_code", "ERR_POSTERN_", digits,
                              "status_code", row->status, "situation", row->situation, "msg",
                              row->text));
    else
        call_refuse_path(call, ERR_UNKNOWN_PATH, NULL);
}

/* Answer the paths that need no key. True: the call is answered. */
static bool answer_open(call_t *call)
{
    bool get = !strcmp(call->method, "GET");

    if (!strcmp(call->method, "OPTIONS")) {
        call_answer(call, 204, NULL);
    } else if (get && !strcmp(call->path, "/healthz")) {
        call_answer(call, 200, json_pack("{s:s}", "status", "ok"));
    } else if (get && !strcmp(call->path, "/readyz")) {
        char why[80];
        bool ready = upstream_is_ready(call->gateway, why, sizeof(why));

        call_answer(call, ready ? 200 : 503,
                    ready ? json_pack("{s:s}", "status", "ready")
                          : json_pack("{s:s, s:i, s:s, s:{}}", "status", "not ready", "status_code",
                                      503, "msg", why, "details"));
    } else if (get && !strcmp(call->path, "/openapi.json")) {
        call->file = &call->gateway->openapi;
        call_answer(call, 200, NULL);
    } else if (get && docs_find(call->path)) {
        call->file = docs_find(call->path);
        call_answer(call, 200, NULL);
    } else if (get && !strncmp(call->path, ERRORS_PATH, strlen(ERRORS_PATH))) {
        answer_error(call);
    }
    return call->state == ANSWERED;
}

/* Take a token from a bucket with the setting's rate per minute. 0: go on, else seconds to wait. */
static int take_rate(call_t *call, const char *setting, const char *bucket)
{
    return rates_take(call->gateway->rates, bucket, config_int(call->gateway->config, setting),
                      bus_mono_ms());
}

/* Take one request from the rate of the key. Nonzero: over the rate, and the call is answered. */
static int check_rate(call_t *call)
{
    const char *id =
        json_string_value(json_object_get(json_object_get(call->actor, "credential"), "id"));
    const char *caller = id ? id : call->account;
    char creates[192];

    if (call->is_rated)
        return 0;
    call->is_rated = true;
    call->retry_after = take_rate(call, "rate-limit", caller);
    if (call->retry_after) {
        call_refuse(call, ERR_RATE_LIMITED, NULL, NULL);
    } else if (call->target.kind && call->target.operation->bit == OPERATION_CREATE) {
        snprintf(creates, sizeof(creates), "%s %s", caller, call->target.kind->name);
        call->retry_after = take_rate(call, "create-rate-limit", creates);
        if (call->retry_after)
            call_refuse(call, ERR_CREATE_RATE, NULL, NULL);
    }
    return call->retry_after;
}

static void ask_service(call_t *call)
{
    if (!http_take_place(call)) {
        call_refuse(call, ERR_BUSY, NULL, NULL);
        return;
    }
    call->state = CALLING;
    upstream_send(call);
}

static void on_admitted(call_t *call)
{
    if (!call->is_whole) {
        call->state = READING;
        http_read_body(call);
        return;
    }
    if (!call->target.kind && !call->self) {
        answer_root(call);
        return;
    }
    if (!call->self)
        read_document(call);
    if (call->state != ANSWERED && call->state != PARSING)
        ask_service(call);
}

void call_on_parsed(void *context, parsed_t *parsed)
{
    gateway_t *gateway = context;
    call_t *call = zhashx_lookup(gateway->calls, parsed->name);

    if (!call)
        return; /* its client is gone, or it was too late */
    INVARIANT(call->state == PARSING);
    if (parsed->code) {
        call_refuse(call, parsed->code, NULL, *parsed->msg ? parsed->msg : NULL);
    } else {
        call->packed = parsed->packed;
        msgpack_sbuffer_init(&parsed->packed);
        ask_service(call);
    }
    if (call->state == ANSWERED || call->state == READING)
        http_resume(call);
}

static int deadline_of(const call_t *call)
{
    const target_t *target = &call->target;

    return target->kind && target->operation && target->operation->bit == OPERATION_CREATE
                   && target->kind->operations & KIND_SLOW
               ? CALL_SLOW_DEADLINE_MS
               : CALL_DEADLINE_MS;
}

/* Find out who is calling, and whether they may: from memory, or from the services. */
static void admit(call_t *call)
{
    call->admitted_ms = bus_mono_ms();
    call->deadline_ms = call->admitted_ms + deadline_of(call);
    if (admission_recall(call->gateway->admission, call_token(call), call->ip, bus_mono_ms(),
                         call->account, &call->actor)) {
        http_trust(call);
        if (!check_rate(call))
            on_admitted(call);
        return;
    }
    call->state = AUTHENTICATING;
    call->generation = admission_generation(call->gateway->admission);
    upstream_send(call);
}

void call_begin(call_t *call)
{
    int r;

    if (answer_open(call))
        return;
    call->query = json_object();
    r = call_check(call);
    if (r)
        call_refuse(call, r, NULL, NULL);
    if (call->state != ANSWERED)
        admit(call);
}

void call_go_on(call_t *call)
{
    INVARIANT(call->state == READING && call->is_whole);
    /* Sending a body may take seconds, in which a key may have been deleted: who calls is asked
     * again. */
    json_decref(call->actor);
    call->actor = NULL;
    admit(call);
}

/* ---- answers of the services ---- */

void call_refuse_reply(call_t *call)
{
    log_error("op=%s a reply of a service cannot be read: is it of another version?",
              call->operation_id);
    call_refuse(call, ERR_INTERNAL, NULL, NULL);
}

static void on_authenticated(call_t *call, zframe_t *frame)
{
    _cleanup_(json_clear_ref) json_t *body = NULL;
    const char *account =
        frame_json(frame, &body) ? NULL : json_string_value(json_object_get(body, "account"));

    if (!account || strlen(account) >= sizeof(call->account)) {
        call_refuse_reply(call);
        return;
    }
    snprintf(call->account, sizeof(call->account), "%s", account);
    call->actor = json_incref(json_object_get(body, "actor"));
    http_trust(call);
    if (check_rate(call))
        return;
    call->state = ADMITTING;
    upstream_send(call);
}

static void on_called(call_t *call, const json_t *outcome, zframe_t *body, const reach_t *reach)
{
    const operation_t *operation = call->target.operation; /* NULL: GET /self */
    int64_t revision = json_integer_value(json_object_get(outcome, "revision"));
    const char *etag = json_string_value(json_object_get(outcome, "etag"));

    if (etag)
        snprintf(call->etag, sizeof(call->etag), "%s", etag);

    if (revision > 0) {
        snprintf(call->revision, sizeof(call->revision), "%lld", (long long)revision);
        snprintf(call->edges, sizeof(call->edges), "%s", reach->edges);
        snprintf(call->streams_ended, sizeof(call->streams_ended), "%s", reach->streams_ended);
    }
    if (operation && operation->answer == ANSWER_NOTHING)
        call_answer(call, (unsigned)operation->status, NULL);
    else if (unpack_text(zframe_data(body), zframe_size(body), &call->text))
        call_refuse_reply(call);
    else
        call_answer(call, operation ? (unsigned)operation->status : 200, NULL);
}

void call_reply(call_t *call, const json_t *outcome, zframe_t *body, const reach_t *reach)
{
    if (!json_is_integer(json_object_get(outcome, "code")))
        call_refuse_reply(call);
    else if (json_integer_value(json_object_get(outcome, "code")))
        refuse_outcome(call, outcome);
    else if (call->state == AUTHENTICATING)
        on_authenticated(call, body);
    else if (call->state == ADMITTING) {
        admission_remember(call->gateway->admission, call->generation, call_token(call), call->ip,
                           bus_mono_ms(), call->account, call->actor);
        on_admitted(call);
    } else
        on_called(call, outcome, body, reach);
    if (call->state == ANSWERED || call->state == READING)
        http_resume(call);
}
