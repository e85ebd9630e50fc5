#include "common/schema/sign_in_digest.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

int sign_in_digest(const secret_key_t *key, const char *module, const json_t *config,
                   char out[SIGN_IN_DIGEST_SIZE])
{
    _cleanup_(json_clear_ref) json_t *whole = json_pack("[s, O]", module, config);
    char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    unsigned char hash[32];

    if (!text)
        return -ENOMEM;
    secret_derive(key, "sign-in rules", text, hash);
    sodium_bin2hex(out, SIGN_IN_DIGEST_SIZE, hash, sizeof(hash));
    secret_free(&text, strlen(text));
    return 0;
}
