#include "services/identity/ssh_authority.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "services/identity/ssh.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
    DAY_S = 86400,
    HOST_DAYS = 365,
    RSA_BITS = 2048,
    /* For a key, inside the transaction: one of 4,096 bits takes up to 4 s of a processor, and a
     * busy one has little of it for us. As long as callers wait (the kind is SLOW). */
    KEY_MS = 25000
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

bool ssh_authority_is_slow(const char *verb, const void *body, size_t len)
{
    (void)body, (void)len;
    return !strcmp(verb, "ssh_certificate_authority.create");
}

static int ssh_authority_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem)
{
    const char *type = text_of(document, "private_key_type"),
               *curve = text_of(document, "elliptic_curve");
    int bits = (int)json_integer_value(json_object_get(document, "key_size"));
    char *public_key = NULL, *private_key = NULL;
    int r;

    (void)references;
    if (old)
        return 0; /* the key was made at creation and cannot change */
    if (*curve && strcmp(type, "ecdsa"))
        problem_add(problem, ERR_SSH_KEY, "elliptic_curve", "is for ecdsa keys only");
    if (bits && strcmp(type, "rsa"))
        problem_add(problem, ERR_SSH_KEY, "key_size", "is for rsa keys only");
    if (bits && bits != 2048 && bits != 4096)
        problem_add(problem, ERR_SSH_KEY, "key_size", "must be 2048 or 4096");
    if (problem->code)
        return problem->code;
    r = pg_allow_idle(crud->pg, KEY_MS);
    if (!r)
        r = ssh_make_key(type, *curve ? curve : "p256", bits ? bits : RSA_BITS, &public_key,
                         &private_key);
    if (!r) {
        json_object_set_new(document, "public_key", json_string(public_key));
        json_object_set_new(document, "key_type", json_string(type));
        json_object_set_new(document, "private_key_pem", json_string(private_key));
    }
    free(public_key);
    secret_free(&private_key, private_key ? strlen(private_key) : 0);
    return r;
}

/* Seconds since 1970 of an RFC 3339 time in UTC, in whole seconds, as the table's format leaves
 * it. */
static int64_t unix_time(const char *value)
{
    struct tm tm = {0};

    return strptime(value, "%Y-%m-%dT%H:%M:%SZ", &tm) ? (int64_t)timegm(&tm) : 0;
}

static void set_time(json_t *document, const char *key, int64_t value)
{
    time_t seconds = (time_t)value;
    char out[32];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(out, sizeof(out), "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_object_set_new(document, key, json_string(out));
}

/* Complete the times that the request leaves open: from now, for so many days. */
static int set_validity(json_t *document, int days, ssh_certificate_t *certificate,
                        problem_t *problem)
{
    const char *after = text_of(document, "valid_after"), *until = text_of(document, "valid_until");

    certificate->valid_after = *after ? unix_time(after) : (int64_t)time(NULL);
    certificate->valid_until =
        *until ? unix_time(until) : certificate->valid_after + (int64_t)days * DAY_S;
    if (certificate->valid_until <= certificate->valid_after)
        return problem_add(problem, ERR_BAD_TIMESTAMP, "valid_until", "must be after valid_after");
    set_time(document, "valid_after", certificate->valid_after);
    set_time(document, "valid_until", certificate->valid_until);
    return 0;
}

static int certify_document(crud_t *crud, json_t *document, bool host, problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *authority = NULL;
    ssh_certificate_t certificate = {
        .public_key = text_of(document, "public_key"),
        .host = host,
        .key_id = text_of(document, "id"),
        .principals = json_object_get(document, "principals"),
        .critical_options = json_object_get(document, "critical_options"),
        .extensions = json_object_get(document, "extensions"),
    };
    char *line = NULL;
    int r;

    r = set_validity(document, host ? HOST_DAYS : 1, &certificate, problem);
    if (r)
        return r;
    r = crud_load(crud, kind_find("ssh_certificate_authority"), crud->request->account,
                  text_of(document, "ssh_certificate_authority_id"), false, &authority);
    if (r == ERR_NOT_FOUND)
        return 0; /* the check of references reports it */
    if (!r)
        r = ssh_certify(text_of(authority, "private_key_pem"), &certificate, &line);
    if (r == -EINVAL)
        return problem_add(problem, ERR_SSH_KEY, "public_key", "cannot be certified");
    if (r)
        return r;
    json_object_set_new(document, "certificate", json_string(line));
    json_object_set_new(document, "key_type", json_string(ssh_key_type(certificate.public_key)));
    free(line);
    return 0;
}

static int ssh_host_certificate_check(crud_t *crud, json_t *document, const json_t *old,
                                      json_t *references, problem_t *problem)
{
    (void)references;
    return old ? 0 : certify_document(crud, document, true, problem);
}

static int ssh_user_certificate_check(crud_t *crud, json_t *document, const json_t *old,
                                      json_t *references, problem_t *problem)
{
    (void)references;
    return old ? 0 : certify_document(crud, document, false, problem);
}

KIND_RULES(ssh_certificate_authority, .check = ssh_authority_check);
KIND_RULES(ssh_host_certificate, .check = ssh_host_certificate_check);
KIND_RULES(ssh_user_certificate, .check = ssh_user_certificate_check);
