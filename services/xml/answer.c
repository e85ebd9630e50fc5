#include "services/xml/answer.h"
#include "common/base/cleanup.h"
#include "common/codec/pack.h"
#include "services/xml/cipher.h"
#include "services/xml/document.h"
#include "services/xml/expect.h"
#include "services/xml/metadata.h"
#include "services/xml/signature.h"
#include "services/xml/verify.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <string.h>
#include <time.h>

/* saml.metadata {metadata}. */
static int describe_metadata(const json_t *body, json_t **ret_answer, problem_t *problem)
{
    static const char *const names[] = {"metadata", NULL};
    const char *text = json_string_value(json_object_get(body, "metadata"));
    const char *unknown = field_unknown(body, names);
    _cleanup_(metadata_done) metadata_t metadata = {0};
    int r;

    if (unknown)
        return problem_add(problem, ERR_INVALID_FIELD, unknown, "is no field of saml.metadata");
    if (!text)
        return problem_add(problem, ERR_INVALID_FIELD, "metadata", "must be a text");
    r = metadata_read(&metadata, text, json_string_length(json_object_get(body, "metadata")),
                      problem);
    if (!r)
        *ret_answer = metadata_describe(&metadata);
    return r;
}

static int answer_verb(const json_t *question, json_t **ret_answer, problem_t *problem)
{
    const char *verb = json_string_value(json_object_get(question, "verb"));
    const json_t *body = json_object_get(question, "body");

    if (verb && !strcmp(verb, "saml.verify"))
        return verify_message(body, ret_answer, problem);
    if (verb && !strcmp(verb, "saml.metadata"))
        return describe_metadata(body, ret_answer, problem);
    return problem_add(problem, ERR_UNKNOWN_VERB, NULL, "there is no such verb");
}

int answer_question(const void *question, size_t len, msgpack_sbuffer *out)
{
    _cleanup_(json_clear_ref) json_t *decoded = NULL;
    _cleanup_(json_clear_ref) json_t *body = NULL;
    _cleanup_(json_clear_ref) json_t *answer = NULL;
    problem_t problem = {0};
    int r = unpack_json(question, len, &decoded);

    if (!r)
        r = answer_verb(decoded, &body, &problem);
    if (r < 0)
        problem_add(&problem, ERR_INTERNAL, NULL, "the message could not be read: %s",
                    outcome_name(r));
    answer = json_pack("{s:i, s:s, s:o}", "code", problem.code, "msg", problem.msg, "body",
                       !problem.code && body ? take(body) : json_null());
    problem_done(&problem);
    return answer ? pack_json(out, answer) : -ENOMEM;
}

/* ---- start ---- */

/* Sign something with a new key, and verify it: what a library sets up at the first use, children
 * would each set up anew. */
static bool rehearse(EVP_PKEY *pkey, const char *digest)
{
    static const unsigned char text[] = "rehearsal";
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char signature[1024];
    size_t len = sizeof(signature);
    bool is_good = pkey && ctx
                   && EVP_DigestSignInit(ctx, NULL, EVP_get_digestbyname(digest), NULL, pkey) == 1
                   && EVP_DigestSign(ctx, signature, &len, text, sizeof(text)) == 1;

    EVP_MD_CTX_free(ctx);
    ctx = EVP_MD_CTX_new();
    is_good = is_good && ctx
              && EVP_DigestVerifyInit(ctx, NULL, EVP_get_digestbyname(digest), NULL, pkey) == 1
              && EVP_DigestVerify(ctx, signature, len, text, sizeof(text)) == 1;
    EVP_MD_CTX_free(ctx);
    return is_good;
}

int answer_start(void)
{
    static const char *const digests[] = {"SHA256", "SHA384", "SHA512"};
    EVP_PKEY *keys[] = {EVP_RSA_gen(2048), EVP_EC_gen("P-256"), EVP_EC_gen("P-384"),
                        EVP_EC_gen("P-521")};
    int r = document_libraries_start();

    json_object_seed(0); /* reads /dev/urandom */
    tzset();             /* reads /etc/localtime, which timegm asks for */
    if (!r)
        r = signature_library_start();
    if (!r)
        r = cipher_library_start();
    for (size_t i = 0; i < LEN(keys) * LEN(digests) && !r; i++)
        if (!rehearse(keys[i / LEN(digests)], digests[i % LEN(digests)]))
            r = fault(-EPROTO, "use OpenSSL");
    for (size_t i = 0; i < LEN(keys); i++)
        EVP_PKEY_free(keys[i]);
    return r;
}
