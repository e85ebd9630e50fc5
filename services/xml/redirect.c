#include "services/xml/redirect.h"
#include "common/base/cleanup.h"
#include "services/xml/envelope.h"
#include "services/xml/expect.h"
#include "services/xml/signature.h"

#include <errno.h>
#include <string.h>

enum { MESSAGE_MAX = 3 * ENVELOPE_TEXT_MAX, WORD_MAX = 4096, SIGNATURE_MAX = 2048 };

static int refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the query string %s", why);
}

/* The octets that are signed: the pieces as they came, in the order of the standard. NULL: no
 * memory. */
static char *signed_octets(const json_t *relay, const char *name, const char *message)
{
    const char *state = json_string_value(json_object_get(relay, "relay_state"));
    const char *algorithm = json_string_value(json_object_get(relay, "sig_alg"));
    char *out = NULL;
    int len = asprintf(&out, "%s=%s%s%s&SigAlg=%s", name, message, state ? "&RelayState=" : "",
                       state ? state : "", algorithm);

    return len < 0 ? NULL : out;
}

/* No "&" can end one piece inside another. */
static bool pieces_are_good(const json_t *relay, const char *name)
{
    static const char *const names[] = {"request", "response",  "relay_state",
                                        "sig_alg", "signature", NULL};
    const char *key;
    json_t *value;

    if (field_unknown(relay, names))
        return false;
    json_object_foreach((json_t *)relay, key, value)
    {
        const char *text = field_text(relay, key, !strcmp(key, name) ? MESSAGE_MAX : WORD_MAX);

        if (!text || strpbrk(text, "&=# \t\r\n"))
            return false;
    }
    return true;
}

static int verify_pieces(const json_t *relay, const char *octets, const keys_t *keys,
                         problem_t *problem)
{
    _cleanup_(free_mem) unsigned char *bytes = NULL;
    char algorithm[WORD_MAX], text[SIGNATURE_MAX];
    size_t len;

    if (!url_decode(json_string_value(json_object_get(relay, "sig_alg")), algorithm,
                    sizeof(algorithm))
        || !url_decode(json_string_value(json_object_get(relay, "signature")), text, sizeof(text))
        || !base64_decode(text, strlen(text), &bytes, &len))
        return refuse(problem, "has a SigAlg or Signature that cannot be read");
    return signature_verify_octets(octets, strlen(octets), algorithm, bytes, len, keys, problem);
}

int redirect_verify(const json_t *relay, const char *message, const keys_t *keys,
                    problem_t *problem)
{
    bool is_request = json_object_get(relay, "request") != NULL;
    const char *piece =
        json_string_value(json_object_get(relay, is_request ? "request" : "response"));
    _cleanup_(free_mem) char *decoded = malloc(MESSAGE_MAX + 1);
    _cleanup_(free_mem) char *octets = NULL;

    if (!decoded)
        return -ENOMEM;
    if (!piece || (is_request && json_object_get(relay, "response"))
        || !json_object_get(relay, "sig_alg") || !json_object_get(relay, "signature"))
        return refuse(problem, "is not signed");
    if (!pieces_are_good(relay, is_request ? "request" : "response"))
        return refuse(problem, "has a piece that is none, or too long");
    if (!url_decode(piece, decoded, MESSAGE_MAX + 1) || strcmp(decoded, message) != 0)
        return refuse(problem, "has another message than the one that was given");
    octets = signed_octets(relay, is_request ? "SAMLRequest" : "SAMLResponse", piece);
    return octets ? verify_pieces(relay, octets, keys, problem) : -ENOMEM;
}
