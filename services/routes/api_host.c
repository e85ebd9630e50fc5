/* The API's own host name (setting api-host), if there is one: a reserved domain of no account. Its
 * certificate comes from files, or from the local authority; edges get it as they get the
 * certificate of any domain. */
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "services/routes/rules.h"
#include "services/routes/x509.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 65536 };

/* The row's account id. Ids of accounts begin with ac_, so it belongs to no account. */
static const char NOBODY[] = "postern";

static char host[260], certificate_file[4096], key_file[4096];

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

const char *api_host(void)
{
    return host;
}

/* ---- the certificate from files ---- */

static int read_file(const char *path, char **ret_text)
{
    _cleanup_(free_mem) char *data = calloc(1, FILE_MAX);
    char why[4200];
    FILE *file = fopen(path, "re");
    size_t len = 0;

    if (file && data)
        len = fread(data, 1, FILE_MAX - 1, file);
    if (file)
        fclose(file);
    snprintf(why, sizeof(why), "read %s, the certificate or key of api-host", path);
    if (!len)
        return fault(-EIO, why);
    *ret_text = take(data);
    return 0;
}

/* Store the certificate from the files in the row, if it differs. */
static int take_given(crud_t *crud, json_t *row, bool *ret_changed)
{
    _cleanup_(free_mem) char *chain = NULL;
    _cleanup_(free_mem) char *sealed = NULL;
    _cleanup_(json_clear_ref) json_t *described = json_object();
    problem_t problem = {0};
    char *key = NULL;
    int r;

    r = read_file(certificate_file, &chain);
    if (!chain)
        return r;
    if (!strcmp(chain, text_of(row, "local_certificate_pem")))
        return 0;
    r = read_file(key_file, &key);
    if (!r && x509_describe(chain, key, described, &problem))
        r = fault(-EINVAL,
                  "api-certificate and api-certificate-key are no certificate and its key");
    problem_done(&problem);
    if (!r && key && !(sealed = secret_seal(crud->key, key, strlen(key))))
        r = -ENOMEM;
    if (!r) {
        json_object_set_new(row, "local_certificate_pem", json_string(chain));
        json_object_set_new(row, "local_key_sealed", json_string(sealed));
        json_object_set_new(row, "metadata", json_string("given"));
        *ret_changed = true;
    }
    secret_free(&key, key ? strlen(key) : 0);
    return r;
}

static int take_local(crud_t *crud, json_t *row, bool *ret_changed)
{
    const char *chain = text_of(row, "local_certificate_pem");

    if (*chain && strcmp(text_of(row, "metadata"), "given") && !x509_is_due(chain))
        return 0;
    json_object_set_new(row, "metadata", json_string("local"));
    *ret_changed = true;
    return reserved_domain_issue(crud, row);
}

/* ---- the row ---- */

/* Inside a transaction: delete the domains that an earlier value of the setting left. */
static int drop_others(crud_t *crud)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT id FROM reserved_domain WHERE account_id = $1 AND domain <> $2", 2,
                    NOBODY, host);

    for (int i = 0; !r && i < PQntuples(res); i++) {
        const char *id = PQgetvalue(res, i, 0);

        r = pg_exec(crud->pg, NULL, "DELETE FROM object WHERE id = $1", 1, id);
        if (!r)
            r = crud_publish(crud, "reserved_domain", id, NULL);
    }
    return r;
}

/* Find the row of the name. A fault if an account has reserved that name: its service must not end
 * silently. */
static int find_row(crud_t *crud, json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char why[700];
    int r =
        pg_exec(crud->pg, &res,
                "SELECT to_jsonb(t), account_id FROM reserved_domain t WHERE domain = $1", 1, host);

    if (r)
        return r;
    if (!PQntuples(res)) {
        *ret_row = json_pack("{s:s}", "domain", host);
        return *ret_row ? 0 : -ENOMEM;
    }
    if (strcmp(PQgetvalue(res, 0, 1), NOBODY)) {
        snprintf(why, sizeof(why), "api-host %s is reserved by account %s: delete it there first",
                 host, PQgetvalue(res, 0, 1));
        return fault(-EEXIST, why);
    }
    *ret_row = json_loads(PQgetvalue(res, 0, 0), 0, NULL);
    return *ret_row ? 0 : -ENOMEM;
}

static int write_row(crud_t *crud, json_t *row)
{
    char id[ID_MAX];
    int r = 0;

    if (!*text_of(row, "id")) {
        id_make("rd", id);
        json_object_set_new(row, "id", json_string(id));
        r = pg_exec(crud->pg, NULL,
                    "INSERT INTO object (id, account_id, kind) VALUES ($1, $2, 'reserved_domain')",
                    2, id, NOBODY);
        if (!r)
            r = pg_exec(crud->pg, NULL,
                        "INSERT INTO reserved_domain (id, account_id, created_at, description, "
                        "metadata, domain, region, resolves_to) "
                        "VALUES ($1, $2, now(), 'the API', '', $3, '', '[]')",
                        3, id, NOBODY, host);
    }
    return r ? r
             : pg_exec(crud->pg, NULL,
                       "UPDATE reserved_domain SET local_certificate_pem = $2, "
                       "local_key_sealed = $3, metadata = $4 WHERE id = $1",
                       4, text_of(row, "id"), text_of(row, "local_certificate_pem"),
                       text_of(row, "local_key_sealed"), text_of(row, "metadata"));
}

static int refresh_row(crud_t *crud)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *document = NULL;
    bool changed = false;
    int r;

    r = pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended('api host', 0))", 0);
    if (!r)
        r = drop_others(crud);
    if (r || !*host)
        return r;
    r = find_row(crud, &row);
    if (!r)
        r = *certificate_file ? take_given(crud, row, &changed) : take_local(crud, row, &changed);
    if (r || !changed)
        return r;
    r = write_row(crud, row);
    if (!r)
        r = reserved_domain_publish(crud, row, &document);
    if (!r)
        r = crud_publish(crud, "reserved_domain", text_of(row, "id"), document);
    if (!r)
        log_info("the API's host %s has a new certificate (%s)", host, text_of(row, "metadata"));
    return r;
}

int api_host_refresh(crud_t *crud, int64_t *ret_revision)
{
    int r = crud_begin(crud);

    if (!r)
        r = refresh_row(crud);
    return crud_end(crud, r, ret_revision);
}

int api_host_setup(crud_t *crud, const config_t *config)
{
    const char *name = config_str(config, "api-host");
    size_t labels = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.");
    int64_t revision;

    if (name[labels] || strlen(name) > 253 || (*name && !strchr(name, '.')) || *name == '.')
        return fault(-EINVAL, "api-host must be a host name in lower case, with a dot in it");
    snprintf(host, sizeof(host), "%s", name);
    snprintf(certificate_file, sizeof(certificate_file), "%s",
             config_str(config, "api-certificate"));
    snprintf(key_file, sizeof(key_file), "%s", config_str(config, "api-certificate-key"));
    if (!*certificate_file != !*key_file)
        return fault(-EINVAL, "api-certificate and api-certificate-key must be set together");
    return api_host_refresh(crud, &revision);
}
