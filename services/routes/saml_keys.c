#include "services/routes/saml_keys.h"
#include "common/base/cleanup.h"
#include "common/base/secret.h"
#include "services/routes/ready_keys.h"
#include "services/routes/x509.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

typedef enum rotation { ROTATION_NONE, ROTATION_NEXT, ROTATION_PROMOTED } rotation_t;

static const char *const rotation_names[] = {"none", "next", "promoted"};
static const char rotation_field[] = "key_rotation";

/* Names of what is stored of a pair in use, and of the other one. */
typedef struct pair {
    const char *certificate, *key, *other_certificate, *other_key;
    int (*make)(EVP_PKEY *key, const char *name, char **ret_certificate_pem, char **ret_key_pem);
} pair_t;

static const pair_t pairs[] = {
    {"request_signing_certificate_pem", "request_signing_key_pem",
     "other_request_signing_certificate_pem", "other_request_signing_key_pem", x509_make_signer},
    {"encryption_certificate_pem", "encryption_key_pem", "other_encryption_certificate_pem",
     "other_encryption_key_pem", x509_make_recipient},
};

static rotation_t rotation_of(const json_t *saml, rotation_t otherwise)
{
    const char *text = json_string_value(json_object_get(saml, rotation_field));

    for (size_t i = 0; text && i < LEN(rotation_names); i++)
        if (!strcmp(text, rotation_names[i]))
            return (rotation_t)i;
    return otherwise;
}

/* The value that before has, or none. */
static void keep_text(json_t *saml, const json_t *before, const char *name)
{
    json_t *value = json_object_get(before, name);

    if (json_is_string(value))
        json_object_set(saml, name, value);
    else
        json_object_del(saml, name);
}

static void keep_pair(json_t *saml, const json_t *before, const pair_t *pair)
{
    keep_text(saml, before, pair->certificate);
    keep_text(saml, before, pair->key);
    keep_text(saml, before, pair->other_certificate);
    keep_text(saml, before, pair->other_key);
}

static int make_pair(json_t *saml, const char *certificate_name, const char *key_name,
                     const char *id, const pair_t *pair)
{
    char *certificate = NULL, *key = NULL;
    EVP_PKEY *made = ready_keys_take();
    int r;

    if (!made)
        return fault(-EIO, "make a key of SAML");
    r = pair->make(made, id, &certificate, &key);
    EVP_PKEY_free(made);
    if (r)
        return r;
    json_object_set_new(saml, certificate_name, json_string(certificate));
    json_object_set_new(saml, key_name, json_string(key));
    secret_free(&certificate, strlen(certificate));
    secret_free(&key, strlen(key));
    return 0;
}

static void swap_texts(json_t *saml, const char *one, const char *two)
{
    json_t *value = json_incref(json_object_get(saml, one));

    json_object_set(saml, one, json_object_get(saml, two));
    json_object_set_new(saml, two, value);
}

static void drop_other(json_t *saml, const pair_t *pair)
{
    json_object_del(saml, pair->other_certificate);
    json_object_del(saml, pair->other_key);
}

/* Go from one state of the rotation to another one, which is allowed. */
static int turn_pair(json_t *saml, rotation_t had, rotation_t want, const char *id,
                     const pair_t *pair)
{
    if (had == want)
        return 0;
    if (want == ROTATION_NONE)
        drop_other(saml, pair);
    else if (had == ROTATION_NONE)
        return make_pair(saml, pair->other_certificate, pair->other_key, id, pair);
    else {
        swap_texts(saml, pair->certificate, pair->other_certificate);
        swap_texts(saml, pair->key, pair->other_key);
    }
    return 0;
}

static int check_turn(const json_t *before, rotation_t had, rotation_t want, problem_t *problem)
{
    if (!before && want != ROTATION_NONE)
        return problem_add(problem, ERR_INVALID_FIELD, "saml.key_rotation",
                           "must be none, or left out, where the module is new: it has new keys");
    if (had == ROTATION_NONE && want == ROTATION_PROMOTED)
        return problem_add(problem, ERR_INVALID_FIELD, "saml.key_rotation",
                           "must be next before it can be promoted: the provider has to know the "
                           "next keys before they are used");
    return 0;
}

int saml_keys_complete(json_t *saml, const json_t *before, const char *id, problem_t *problem)
{
    rotation_t had = rotation_of(before, ROTATION_NONE), want = rotation_of(saml, had);
    int r = check_turn(before, had, want, problem);

    for (size_t i = 0; !r && i < LEN(pairs); i++) {
        keep_pair(saml, before, &pairs[i]);
        if (!json_object_get(saml, pairs[i].key))
            r = make_pair(saml, pairs[i].certificate, pairs[i].key, id, &pairs[i]);
        if (!r)
            r = turn_pair(saml, had, want, id, &pairs[i]);
    }
    if (!r)
        json_object_set_new(saml, rotation_field, json_string(rotation_names[want]));
    return r;
}

int saml_keys_days_left(const json_t *saml)
{
    int least = 0;

    for (size_t i = 0; i < LEN(pairs); i++) {
        const char *pem = json_string_value(json_object_get(saml, pairs[i].certificate));
        int days = pem ? x509_days_left(pem) : 0;

        if (!i || (pem && days < least))
            least = days;
    }
    return least;
}

bool saml_keys_are_due(const json_t *saml)
{
    return rotation_of(saml, ROTATION_NONE) == ROTATION_NONE
           && saml_keys_days_left(saml) <= SAML_KEYS_DUE_DAYS;
}
