/* credential and ssh_credential: how agents and SSH clients prove who they are. */
#include "common/resource/kind_rules.h"
#include "services/identity/owner.h"
#include "services/identity/token.h"

#include <string.h>

static int credential_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                            problem_t *problem)
{
    if (!old)
        token_note(crud, document);
    return owner_check(crud, document, references, problem);
}

static int ssh_credential_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem)
{
    const char *key = json_string_value(json_object_get(document, "public_key"));
    const char *blob = old ? NULL : key + strcspn(key, " \t");

    if (blob) { /* unique by the key without its comment */
        blob += strspn(blob, " \t");
        json_object_set_new(document, "key_blob", json_stringn(blob, strcspn(blob, " \t\r\n")));
    }
    return owner_check(crud, document, references, problem);
}

KIND_RULES(credential, .check = credential_check, .created = token_reveal);
KIND_RULES(ssh_credential, .check = ssh_credential_check);
