#include "common/resource/change.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* Rendering depends only on the row and the tables, so all copies compute the same ETag of a
 * row. */
void change_etag(const json_t *rendered, char out[CHANGE_ETAG])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    msgpack_sbuffer packed;
    char hex[33];

    msgpack_sbuffer_init(&packed);
    if (!pack_json(&packed, rendered)) {
        crypto_hash_sha256(hash, (const unsigned char *)packed.data, packed.size);
        sodium_bin2hex(hex, sizeof(hex), hash, 16);
        snprintf(out, CHANGE_ETAG, "\"%s\"", hex);
    }
    msgpack_sbuffer_destroy(&packed);
}

int change_check_precondition(const char *if_match, const json_t *rendered, problem_t *problem)
{
    const char *at = if_match;
    char etag[CHANGE_ETAG] = "";

    if (!if_match)
        return 0;
    if (rendered)
        change_etag(rendered, etag);
    while (rendered && *at) {
        size_t len;

        at += strspn(at, ", \t");
        len = strcspn(at, ", \t");
        if ((len == 1 && *at == '*') || (len == strlen(etag) && !strncmp(at, etag, len)))
            return 0;
        at += len;
    }
    return problem_add(problem, ERR_PRECONDITION_FAILED, NULL, "the object has changed since");
}

int change_fingerprint(const secret_key_t *key, const request_t *request,
                       char out[CHANGE_FINGERPRINT])
{
    _cleanup_(json_clear_ref) json_t *asked = json_copy(request->body);
    _cleanup_(json_clear_ref) json_t *whole = NULL;
    unsigned char hash[32];
    char *text;

    json_object_del(asked, "path");
    json_object_del(asked, "if_match");
    whole = json_pack("[s, O]", request->verb, asked);
    text = whole ? json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!text)
        return -ENOMEM;
    secret_derive(key, "idempotency", text, hash);
    sodium_bin2hex(out, CHANGE_FINGERPRINT, hash, sizeof(hash));
    secret_free(&text, strlen(text));
    return 0;
}

int change_check_patch(const kind_t *kind, const json_t *patch, problem_t *problem)
{
    if (kind->operations & KIND_NO_EMPTY_UPDATE && json_object_size(patch) == 0)
        return problem_add(problem, ERR_EMPTY_UPDATE, NULL, "the update sets no field");
    return 0;
}

json_t *change_apply(const json_t *old, const json_t *patch)
{
    _cleanup_(json_clear_ref) json_t *document = json_deep_copy(old);

    return document && !json_object_update(document, (json_t *)patch) ? take(document) : NULL;
}

int change_conflict(const char *constraint, problem_t *problem)
{
    const kind_unique_t *row = kind_unique(constraint);

    return row ? problem_add(problem, row->outcome, row->field, "%s", row->text)
               : fault(-EIO, constraint);
}

json_t *change_event(const kind_t *kind, const char *action, const char *id, const char *at,
                     const request_t *request, const json_t *rendered)
{
    _cleanup_(json_clear_ref) json_t *object = json_deep_copy(rendered);
    char type[96];

    schema_mask(kind, object);
    snprintf(type, sizeof(type), "%s_%s.v0", kind->audit, action);
    return json_pack("{s:s, s:s, s:s, s:s, s:O?, s:O}", "event_id", id, "event_type", type,
                     "event_timestamp", at, "account_id", request->account, "principal",
                     request->actor, "object", object);
}

bool change_leave_out_children(const kind_t *kind, json_t *event)
{
    json_t *object = json_object_get(event, "object");
    bool any = false;

    for (const field_t *field = kind->type.fields; field->name; field++)
        if (field->type == FIELD_CHILDREN) {
            json_object_set_new(object, field->name, json_null());
            any = true;
        }
    return any;
}
