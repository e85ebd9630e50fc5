/* Frames of requests and replies (proto/WIRE.md). */
#include "common/base/cleanup.h"
#include "common/bus/bus.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <string.h>

static int append_json(zmsg_t *msg, const json_t *value)
{
    msgpack_sbuffer buffer;
    int r;

    msgpack_sbuffer_init(&buffer);
    r = pack_json(&buffer, value);
    if (!r && buffer.size > BUS_FRAME_MAX)
        r = -EMSGSIZE;
    if (!r)
        r = zmsg_addmem(msg, buffer.data, buffer.size) ? -ENOMEM : 0;
    msgpack_sbuffer_destroy(&buffer);
    return r;
}

int frame_json(zframe_t *frame, json_t **ret_value)
{
    int r;

    if (!frame)
        return -EBADMSG;
    r = unpack_json(zframe_data(frame), zframe_size(frame), ret_value);
    return r && r != -ENOMEM ? -EBADMSG : r;
}

/* [verb][header]; NULL: no memory. */
static zmsg_t *encode_head(const char *verb, const char *id, const char *key, const char *account,
                           int64_t left_ms, json_t *actor)
{
    _cleanup_(json_clear_ref) json_t *header = json_pack(
        "{s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:O?}", "v", BUS_VERSION, "id", id, "key",
        key ? key : id, "account", account, "left", (json_int_t)left_ms, "clock",
        (json_int_t)bus_mono_ms(), "deadline", (json_int_t)bus_now_ms() + left_ms, "actor", actor);
    zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, verb);
    if (!header || append_json(msg, header))
        zmsg_destroy(&msg);
    return msg;
}

zmsg_t *request_encode(const char *verb, const char *id, const char *key, const char *account,
                       int64_t left_ms, json_t *actor, json_t *body)
{
    _cleanup_(json_clear_ref) json_t *owned = body;
    zmsg_t *msg = encode_head(verb, id, key, account, left_ms, actor);

    if (msg && append_json(msg, owned))
        zmsg_destroy(&msg);
    return msg;
}

zmsg_t *request_encode_packed(const char *verb, const char *id, const char *key,
                              const char *account, int64_t left_ms, json_t *actor,
                              const msgpack_sbuffer *body)
{
    zmsg_t *msg = encode_head(verb, id, key, account, left_ms, actor);

    if (msg && (body->size > BUS_FRAME_MAX || zmsg_addmem(msg, body->data, body->size)))
        zmsg_destroy(&msg);
    return msg;
}

static int copy_str(const json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (!text || strlen(text) >= size)
        return -EBADMSG;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

/* Header "left" is the time that the sender still waits. Senders of older versions say "deadline",
 * by their wall clock, instead. */
static void take_deadline(const json_t *header, request_t *request)
{
    const json_t *left = json_object_get(header, "left");
    int64_t deadline = json_integer_value(json_object_get(header, "deadline"));

    request->clock_ms = json_integer_value(json_object_get(header, "clock"));
    request->left_ms = json_is_integer(left) ? json_integer_value(left)
                       : deadline > 0        ? deadline - bus_now_ms()
                                             : 0;
}

int request_decode(zmsg_t *msg, request_t *ret_request)
{
    _cleanup_(json_clear_ref) json_t *header = NULL;
    _cleanup_(json_clear_ref) json_t *body = NULL;
    zframe_t *verb = zmsg_pop(msg), *head = zmsg_pop(msg), *data = zmsg_pop(msg);
    int r = -EBADMSG;

    memset(ret_request, 0, sizeof(*ret_request));
    if (verb && head && data && zframe_size(verb) < sizeof(ret_request->verb)
        && !frame_json(head, &header) && json_is_object(header)
        && json_integer_value(json_object_get(header, "v")) == BUS_VERSION
        && !copy_str(header, "id", ret_request->id, sizeof(ret_request->id))
        && !frame_json(data, &body) && json_is_object(body)
        && !copy_str(header, "key", ret_request->key, sizeof(ret_request->key))
        && !copy_str(header, "account", ret_request->account, sizeof(ret_request->account))) {
        memcpy(ret_request->verb, zframe_data(verb), zframe_size(verb));
        take_deadline(header, ret_request);
        ret_request->actor = json_incref(json_object_get(header, "actor"));
        ret_request->body = take(body);
        r = 0;
    }
    zframe_destroy(&verb);
    zframe_destroy(&head);
    zframe_destroy(&data);
    return r;
}

void request_done(request_t *self)
{
    json_decref(self->actor);
    json_decref(self->body);
    memset(self, 0, sizeof(*self));
}

/* Encodes a reply whose frames stay within the peer's limit (BUS_FRAME_MAX): a larger one would
 * break the connection, and with it the replies to other requests. */
static int encode_reply(const char *id, const reply_t *reply, zmsg_t **ret_msg)
{
    const problem_t *problem = &reply->problem;
    const outcome_t *row = outcome_find(problem->code);
    _cleanup_(json_clear_ref) json_t *outcome = json_pack(
        "{s:i, s:s, s:O?, s:I, s:s}", "code", problem->code, "msg",
        *problem->msg ? problem->msg
        : row         ? row->text
                      : "",
        "details", problem->details, "revision", (json_int_t)reply->revision, "etag", reply->etag);
    _cleanup_(json_clear_ref) json_t *empty = json_null();
    zmsg_t *msg = zmsg_new();
    int r;

    zmsg_addstr(msg, id);
    r = outcome ? append_json(msg, outcome) : -EBADMSG;
    if (!r)
        r = reply->too_large || reply->packed.size > BUS_FRAME_MAX ? -EMSGSIZE
            : reply->packed.data ? zmsg_addmem(msg, reply->packed.data, reply->packed.size)
                                 : append_json(msg, reply->body ? reply->body : empty);
    if (r)
        zmsg_destroy(&msg);
    *ret_msg = msg;
    return r;
}

zmsg_t *reply_encode(const char *id, const reply_t *reply)
{
    reply_t refused = {.revision = reply->revision};
    zmsg_t *msg;
    int r = encode_reply(id, reply, &msg);

    if (r) {
        fault(r, "encode a reply");
        refused.problem.code = reply->problem.code ? reply->problem.code
                               : r == -EMSGSIZE    ? ERR_ANSWER_TOO_LARGE
                                                   : ERR_INTERNAL;
        encode_reply(id, &refused, &msg);
    }
    return msg;
}

int reply_split(zmsg_t *msg, char id[64], json_t **ret_outcome, zframe_t **ret_body)
{
    _cleanup_(json_clear_ref) json_t *outcome = NULL;
    zframe_t *first = zmsg_pop(msg), *second = zmsg_pop(msg), *third = zmsg_pop(msg);
    int r = -EBADMSG;

    *id = '\0';
    if (first && zframe_size(first) < 64) {
        memcpy(id, zframe_data(first), zframe_size(first));
        id[zframe_size(first)] = '\0';
    }
    if (*id && third && !frame_json(second, &outcome) && json_is_object(outcome)) {
        *ret_outcome = take(outcome);
        *ret_body = take(third);
        r = 0;
    }
    zframe_destroy(&first);
    zframe_destroy(&second);
    zframe_destroy(&third);
    return r;
}

int reply_decode(zmsg_t *msg, char id[64], json_t **ret_outcome, json_t **ret_body)
{
    zframe_t *body = NULL;
    int r = reply_split(msg, id, ret_outcome, &body);

    if (r)
        return r;
    r = frame_json(body, ret_body);
    zframe_destroy(&body);
    if (r) {
        json_decref(*ret_outcome);
        *ret_outcome = NULL;
    }
    return r;
}

void reply_drop_body(reply_t *self)
{
    json_decref(self->body);
    self->body = NULL;
    msgpack_sbuffer_destroy(&self->packed);
    msgpack_sbuffer_init(&self->packed);
}

void reply_done(reply_t *self)
{
    problem_done(&self->problem);
    reply_drop_body(self);
}
