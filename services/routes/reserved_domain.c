/* reserved_domain: its rules and its certificate, and the local authority that signs one for a
 * domain without its own. */
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "services/routes/rules.h"
#include "services/routes/x509.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int load_authority(crud_t *crud, char **ret_certificate, char **ret_key, size_t *ret_key_len)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(crud->pg, &res, "SELECT certificate_pem, key_sealed FROM local_authority", 0);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return ERR_NOT_FOUND;
    r = secret_open(crud->key, PQgetvalue(res, 0, 1), ret_key, ret_key_len);
    if (r)
        return fault(r, "open the local authority's key: is this the master key that sealed it?");
    *ret_certificate = memory_copy(PQgetvalue(res, 0, 0), "the authority's certificate");
    return 0;
}

int reserved_domain_issue(crud_t *crud, json_t *document)
{
    _cleanup_(free_mem) char *authority = NULL;
    _cleanup_(free_mem) char *chain = NULL;
    _cleanup_(free_mem) char *sealed = NULL;
    char *authority_key = NULL, *key = NULL;
    size_t authority_key_len = 0;
    int r;

    r = load_authority(crud, &authority, &authority_key, &authority_key_len);
    if (!r)
        r = x509_issue(authority, authority_key,
                       json_string_value(json_object_get(document, "domain")), &chain, &key);
    if (!r && !(sealed = secret_seal(crud->key, key, strlen(key))))
        r = -ENOMEM;
    if (!r) {
        json_object_set_new(document, "local_certificate_pem", json_string(chain));
        json_object_set_new(document, "local_key_sealed", json_string(sealed));
    }
    secret_free(&authority_key, authority_key_len);
    secret_free(&key, key ? strlen(key) : 0);
    return r > 0 ? fault(r, "there is no local authority") : r;
}

static int check_certificate(crud_t *crud, json_t *document, problem_t *problem)
{
    bool own = json_is_string(json_object_get(document, "certificate_id"));
    bool policy = json_is_object(json_object_get(document, "certificate_management_policy"));

    if (own && policy)
        return problem_add(problem, ERR_CERT_EXCLUSIVE, "certificate_id",
                           "excludes certificate_management_policy");
    if (policy)
        return problem_add(problem, ERR_CERT_POLICY_UNSUPPORTED, "certificate_management_policy",
                           "this server has no ACME account: leave the field out, or give "
                           "certificate_id");
    if (own || json_is_string(json_object_get(document, "local_certificate_pem")))
        return 0;
    return reserved_domain_issue(crud, document);
}

static int reserved_domain_check(crud_t *crud, json_t *document, const json_t *old,
                                 json_t *references, problem_t *problem)
{
    const char *domain = json_string_value(json_object_get(document, "domain"));
    int r;

    (void)references;
    r = check_certificate(crud, document, problem);
    return r || old ? r
                    : name_claim(crud, json_string_value(json_object_get(document, "id")), domain,
                                 "domain", problem);
}

int reserved_domain_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    const json_t *certificate_id = json_object_get(row, "certificate_id");
    const char *sealed = json_string_value(json_object_get(row, "local_key_sealed"));
    char *key = NULL;
    size_t len = 0;
    int r;

    if (json_is_string(certificate_id)) {
        *ret_document = json_pack("{s:O, s:O}", "domain", json_object_get(row, "domain"),
                                  "certificate_id", certificate_id);
        return *ret_document ? 0 : -ENOMEM;
    }
    r = secret_open(crud->key, sealed ? sealed : "", &key, &len);
    if (r)
        return fault(r, "open a local certificate's key");
    *ret_document =
        json_pack("{s:O, s:O, s:s}", "domain", json_object_get(row, "domain"), "certificate_pem",
                  json_object_get(row, "local_certificate_pem"), "private_key_pem", key);
    secret_free(&key, len);
    return *ret_document ? 0 : -ENOMEM;
}

/* ---- the authority ---- */

/* Write to a new file and rename it: a reader must never see half a file. */
static int write_file(const char *path, const char *text)
{
    char temp[4096], why[4200];
    FILE *file;
    int r = 0;

    snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
    file = fopen(temp, "we");
    if (!file || fputs(text, file) < 0)
        r = -EIO;
    if (file && fclose(file))
        r = -EIO;
    if (!r && rename(temp, path))
        r = -errno;
    snprintf(why, sizeof(why), "write ca-file %s", path);
    return r ? fault(r, why) : 0;
}

static int make_authority(crud_t *crud)
{
    _cleanup_(free_mem) char *certificate = NULL;
    _cleanup_(free_mem) char *sealed = NULL;
    char *key = NULL;
    int r;

    r = x509_make_authority("Postern local authority", &certificate, &key);
    if (r)
        return r;
    sealed = secret_seal(crud->key, key, strlen(key));
    secret_free(&key, strlen(key));
    if (!sealed)
        return -ENOMEM;
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO local_authority (certificate_pem, key_sealed) VALUES ($1, $2) "
                   "ON CONFLICT DO NOTHING",
                   2, certificate, sealed);
}

/* Inside a transaction: issue a new certificate for the domain if it is still due, and publish it
 * like any change. */
static int renew_one(crud_t *crud, const char *id, bool *ret_renewed)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *document = NULL;
    const char *chain;
    int r;

    r = pg_exec(
        crud->pg, &res,
        "SELECT to_jsonb(t) FROM reserved_domain t WHERE id = $1 AND certificate_id IS NULL "
        "FOR UPDATE",
        1, id);
    if (r || PQntuples(res) == 0)
        return r;
    row = json_loads(PQgetvalue(res, 0, 0), 0, NULL);
    chain = json_string_value(json_object_get(row, "local_certificate_pem"));
    if (chain && !x509_is_due(chain))
        return 0;
    r = reserved_domain_issue(crud, row);
    if (!r)
        r = pg_exec(crud->pg, NULL,
                    "UPDATE reserved_domain SET local_certificate_pem = $2, "
                    "local_key_sealed = $3 WHERE id = $1",
                    3, id, json_string_value(json_object_get(row, "local_certificate_pem")),
                    json_string_value(json_object_get(row, "local_key_sealed")));
    if (!r)
        r = reserved_domain_publish(crud, row, &document);
    if (!r)
        r = crud_publish(crud, "reserved_domain", id, document);
    *ret_renewed = !r;
    return r;
}

/* Renew the certificates that are due on one page of domains. last: where the next page begins; ""
 * after the last. */
static int renew_page(crud_t *crud, char last[ID_MAX], int *renewed, int64_t *ret_revision)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(crud->pg, &res,
                "SELECT id, coalesce(local_certificate_pem, '') FROM reserved_domain "
                "WHERE certificate_id IS NULL AND id > $1 AND account_id <> 'postern' "
                "ORDER BY id LIMIT 500",
                1, last); /* the domain of the API's own host is renewed by api_host.c */
    *last = '\0';
    for (int i = 0; !r && i < PQntuples(res); i++) {
        const char *chain = PQgetvalue(res, i, 1);
        bool fresh = false;

        snprintf(last, ID_MAX, "%s", PQgetvalue(res, i, 0));
        if (*chain && !x509_is_due(chain))
            continue;
        r = crud_begin(crud);
        if (!r)
            r = renew_one(crud, last, &fresh);
        r = crud_end(crud, r, ret_revision);
        *renewed += !r && fresh;
    }
    return r;
}

/* Issue new certificates for the domains whose local certificate is due. */
static int renew_expiring(crud_t *crud, int *ret_renewed, int64_t *ret_revision)
{
    char last[ID_MAX] = "";
    int r;

    *ret_renewed = 0;
    do
        r = renew_page(crud, last, ret_renewed, ret_revision);
    while (!r && *last);
    if (*ret_renewed)
        log_info("renewed %d local certificates", *ret_renewed);
    return r;
}

int on_reserved_domain_renew(crud_t *crud, const request_t *request, reply_t *reply)
{
    int64_t revision = 0;
    int renewed, r;

    (void)request;
    *crud->request_key = '\0';
    r = renew_expiring(crud, &renewed, &reply->revision);
    if (!r)
        r = api_host_refresh(crud, &revision);
    if (revision)
        reply->revision = revision;
    if (!r)
        r = ip_policy_publish_missing(crud, &revision);
    if (revision)
        reply->revision = revision;
    if (!r)
        r = failover_backend_publish_missing(crud, &revision);
    if (revision)
        reply->revision = revision;
    if (!r)
        r = sign_in_publish_missing(crud, &revision);
    if (revision)
        reply->revision = revision;
    if (!r)
        r = saml_renewal_pass(crud, &revision);
    if (revision)
        reply->revision = revision;
    if (!r)
        reply->body = json_pack("{s:i}", "renewed", renewed);
    return r;
}

int local_authority_setup(crud_t *crud, const config_t *config)
{
    _cleanup_(free_mem) char *certificate = NULL;
    const char *file = config_str(config, "ca-file");
    char *key = NULL;
    size_t len = 0;
    int64_t revision;
    int r, renewed;

    r = load_authority(crud, &certificate, &key, &len);
    if (r == ERR_NOT_FOUND) {
        r = make_authority(crud);
        if (!r)
            r = load_authority(crud, &certificate, &key, &len);
    }
    secret_free(&key, len);
    if (!r && *file)
        r = write_file(file, certificate);
    if (!r)
        r = renew_expiring(crud, &renewed, &revision);
    return r ? r : api_host_setup(crud, config);
}

KIND_RULES(reserved_domain, .check = reserved_domain_check, .publish = reserved_domain_publish);
