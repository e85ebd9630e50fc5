/* A message of single logout as a browser brought it: the query string, whose octets are signed
 * (SAML bindings 3.4.4.1), or a form. Which it is, and that it comes once; nothing of it is
 * believed here. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

#define DEFLATE "urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE"

/* Parts of a query string, as they stand there; NULL: it has none of that name. */
typedef struct pieces {
    char *request, *response, *relay_state, *sig_alg, *signature, *encoding;
} pieces_t;

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place. False: a '%' without two digits, or a NUL. */
static bool decode_piece(char *text)
{
    char *out = text;

    for (; *text; text++) {
        int high, low;

        if (*text != '%') {
            *out++ = *text == '+' ? ' ' : *text;
            continue;
        }
        high = hex_of(text[1]);
        low = high < 0 ? -1 : hex_of(text[2]);
        if (low < 0 || !(high | low))
            return false;
        *out++ = (char)(high << 4 | low);
        text += 2;
    }
    *out = '\0';
    return true;
}

/* Note where one of the parts that count stands. False: it stands there twice. */
static bool note_piece(pieces_t *self, char *piece)
{
    const struct {
        const char *name;
        char **value;
    } rows[] = {
        {"SAMLRequest=", &self->request},    {"SAMLResponse=", &self->response},
        {"RelayState=", &self->relay_state}, {"SigAlg=", &self->sig_alg},
        {"Signature=", &self->signature},    {"SAMLEncoding=", &self->encoding},
    };

    for (size_t i = 0; i < LEN(rows); i++) {
        size_t len = strlen(rows[i].name);

        if (strncmp(piece, rows[i].name, len) != 0)
            continue;
        if (*rows[i].value)
            return false;
        *rows[i].value = piece + len;
    }
    return true;
}

static bool split_query(char *query, pieces_t *out)
{
    char *rest = query;

    *out = (pieces_t){0};
    while (rest)
        if (!note_piece(out, strsep(&rest, "&")))
            return false;
    return true;
}

static bool relay_state_is_good(const char *text)
{
    if (strlen(text) > SAML_RELAY_MAX)
        return false;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

/* What the engine is given. Texts are of UTF-8, or there is none. */
static const char *make_message(const char *binding, bool is_request, const char *message,
                                const char *relay_state, json_t *relay, json_t **ret_message)
{
    json_t *out;

    if (!*message || strlen(message) > SAML_MESSAGE_MAX)
        return "its message is empty, or longer than 64 KiB";
    if (relay_state && !relay_state_is_good(relay_state))
        return "its RelayState is longer than 512 bytes, or has control characters";
    out = json_pack("{s:s, s:s, s:s, s:O*, s:s*}", "binding", binding, "kind",
                    is_request ? "logout_request" : "logout_response", "message", message, "relay",
                    relay, "relay_state", relay_state);
    if (!out)
        return "it is no UTF-8";
    *ret_message = out;
    return NULL;
}

/* The pieces as they stood there, for who verifies the signature. */
static json_t *pieces_json(const pieces_t *pieces)
{
    return json_pack("{s:s, s:s*, s:s, s:s}", pieces->request ? "request" : "response",
                     pieces->request ? pieces->request : pieces->response, "relay_state",
                     pieces->relay_state, "sig_alg", pieces->sig_alg, "signature",
                     pieces->signature);
}

static const char *read_query(const char *query, json_t **ret_message)
{
    _cleanup_(free_mem) char *text = memory_need(strdup(query), "a query string");
    _cleanup_(json_clear_ref) json_t *relay = NULL;
    pieces_t pieces;
    char *message;

    if (!split_query(text, &pieces))
        return "it has a parameter twice";
    if (!pieces.request == !pieces.response)
        return "it has no SAMLRequest and no SAMLResponse, or both";
    if (!pieces.sig_alg || !pieces.signature)
        return "it is not signed";
    relay = pieces_json(&pieces);
    if (!relay)
        return "it is no UTF-8";
    message = pieces.request ? pieces.request : pieces.response;
    if (!decode_piece(message) || (pieces.relay_state && !decode_piece(pieces.relay_state))
        || (pieces.encoding && !decode_piece(pieces.encoding)))
        return "it has a parameter that cannot be decoded";
    if (pieces.encoding && strcmp(pieces.encoding, DEFLATE) != 0)
        return "its SAMLEncoding is not known";
    return make_message("redirect", pieces.request != NULL, message, pieces.relay_state, relay,
                        ret_message);
}

/* The only value of a parameter; NULL: there is none. False: there are several. */
static bool only_of(const json_t *params, const char *name, const char **ret_text)
{
    const json_t *values = json_object_get(params, name);

    *ret_text = json_string_value(json_array_get(values, 0));
    return json_array_size(values) <= 1;
}

static const char *read_form(const json_t *params, json_t **ret_message)
{
    const char *request, *response, *relay_state;

    if (!only_of(params, "SAMLRequest", &request) || !only_of(params, "SAMLResponse", &response)
        || !only_of(params, "RelayState", &relay_state))
        return "it has a parameter twice";
    if (!request == !response)
        return "it has no SAMLRequest and no SAMLResponse, or both";
    return make_message("post", request != NULL, request ? request : response, relay_state, NULL,
                        ret_message);
}

const char *saml_message_read(const char *query, const json_t *params, json_t **ret_message)
{
    *ret_message = NULL;
    if (!query)
        return read_form(params, ret_message);
    return strlen(query) > SAML_QUERY_MAX ? "it is longer than 16 KiB"
                                          : read_query(query, ret_message);
}
