#include "services/identity/sign_in_state.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define TICKET "ticket of a sign-in"
#define FLOW   "cookie of a sign-in's flow"

/* Seal a value, which is taken over. */
static char *seal_json(const secret_key_t *key, const char *purpose, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL, *sealed = NULL;

    if (text) {
        sealed = secret_seal_for(key, purpose, text, strlen(text));
        secret_free(&text, strlen(text));
    }
    json_decref(value);
    return sealed;
}

/* Open one. *ret_value NULL: it is not sealed by us for this purpose. 0 | -ENOMEM. */
static int open_json(const secret_key_t *key, const char *purpose, const char *sealed, size_t max,
                     json_t **ret_value)
{
    char *text = NULL;
    size_t len = 0;
    int r = -EBADMSG;

    *ret_value = NULL;
    if (sealed && strnlen(sealed, max + 1) <= max)
        r = secret_open_for(key, purpose, sealed, &text, &len);
    if (r)
        return r == -ENOMEM ? r : 0;
    *ret_value = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    return 0;
}

/* Copy a text. False: it is missing or too long. */
static bool copy_text(const json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (!text || strlen(text) >= size)
        return false;
    snprintf(out, size, "%s", text);
    return true;
}

/* ---- tickets ---- */

static json_t *write_ticket(const ticket_t *ticket)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:b}", "r", ticket->route, "h", ticket->host,
                     "t", ticket->target, "n", ticket->nonce_hash, "e",
                     (json_int_t)ticket->expires_s, "a", (json_int_t)ticket->asked_ms, "f",
                     ticket->force);
}

/* False: it is not whole, or too late. */
static bool read_ticket(const json_t *value, int64_t now_s, ticket_t *out)
{
    out->expires_s = json_integer_value(json_object_get(value, "e"));
    out->asked_ms = json_integer_value(json_object_get(value, "a"));
    if (!out->asked_ms) /* it has begun, and waits for the provider's address */
        out->asked_ms = 1000 * (out->expires_s - STATE_SECONDS);
    out->force = json_is_true(json_object_get(value, "f"));
    return copy_text(value, "r", out->route, sizeof(out->route))
           && copy_text(value, "h", out->host, sizeof(out->host))
           && copy_text(value, "t", out->target, sizeof(out->target))
           && copy_text(value, "n", out->nonce_hash, sizeof(out->nonce_hash))
           && out->expires_s > now_s;
}

char *ticket_seal(const secret_key_t *key, const ticket_t *ticket)
{
    return seal_json(key, TICKET, write_ticket(ticket));
}

int ticket_open(const secret_key_t *key, const char *sealed, int64_t now_s, ticket_t *ret_ticket)
{
    _cleanup_(json_clear_ref) json_t *value = NULL;
    int r = open_json(key, TICKET, sealed, STATE_TICKET_MAX, &value);

    *ret_ticket = (ticket_t){0};
    if (r)
        return r;
    return read_ticket(value, now_s, ret_ticket) ? 0 : ERR_SIGN_IN_STATE;
}

/* ---- a flow's cookie ---- */

static char *seal_flow(const secret_key_t *key, const flow_t *flow)
{
    json_t *one = write_ticket(&flow->ticket);

    json_object_set_new(one, "s", json_string(flow->state));
    json_object_set_new(one, "v", json_string(flow->verifier));
    json_object_set_new(one, "o", json_string(flow->nonce));
    return seal_json(key, FLOW, one);
}

char *flow_seal(const secret_key_t *key, const flow_t *flow)
{
    char *sealed = seal_flow(key, flow);
    flow_t shorter = *flow;

    if (!sealed || strlen(sealed) <= STATE_COOKIE_MAX)
        return sealed;
    free(sealed);
    memcpy(shorter.ticket.target, "/", sizeof("/"));
    return seal_flow(key, &shorter);
}

static bool read_flow(const json_t *value, int64_t now_s, flow_t *out)
{
    return read_ticket(value, now_s, &out->ticket)
           && copy_text(value, "s", out->state, sizeof(out->state))
           && copy_text(value, "v", out->verifier, sizeof(out->verifier))
           && copy_text(value, "o", out->nonce, sizeof(out->nonce));
}

int flow_open(const secret_key_t *key, const char *sealed, int64_t now_s, const char *route,
              const char *state, flow_t *ret_flow)
{
    _cleanup_(json_clear_ref) json_t *value = NULL;
    int r = open_json(key, FLOW, sealed, STATE_COOKIE_MAX, &value);

    *ret_flow = (flow_t){0};
    if (r)
        return r;
    return read_flow(value, now_s, ret_flow) && words_equal(ret_flow->state, state)
                   && words_equal(ret_flow->ticket.route, route)
               ? 0
               : ERR_SIGN_IN_STATE;
}
