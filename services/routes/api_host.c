/* The host names that are Postern's own: the API's (setting api-host) and that where people sign in
 * (of setting idp-url), where there are any. Each is a reserved domain of no account. Its
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

typedef struct own_host {
    const char *what;    /* it is the name of, for people */
    const char *setting; /* that names it */
    const char
        *certificate; /* the setting of its certificate; that of its key has -key behind it */
    char name[260];   /* "": there is none */
    char certificate_file[4096], key_file[4096];
} own_host_t;

static own_host_t hosts[] = {
    {.what = "the API", .setting = "api-host", .certificate = "api-certificate"},
    {.what = "sign-in", .setting = "idp-url", .certificate = "idp-certificate"},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

const char *api_host(void)
{
    return hosts[0].name;
}

/* ---- the certificate from files ---- */

static int read_file(const own_host_t *host, const char *path, char **ret_text)
{
    _cleanup_(free_mem) char *data = calloc(1, FILE_MAX);
    char why[4200];
    FILE *file = fopen(path, "re");
    size_t len = 0;

    if (file && data)
        len = fread(data, 1, FILE_MAX - 1, file);
    if (file)
        fclose(file);
    snprintf(why, sizeof(why), "read %s, the certificate or key of %s", path, host->setting);
    if (!len)
        return fault(-EIO, why);
    *ret_text = take(data);
    return 0;
}

/* Store the certificate from the files in the row, if it differs. */
static int take_given(crud_t *crud, const own_host_t *host, json_t *row, bool *ret_changed)
{
    _cleanup_(free_mem) char *chain = NULL;
    _cleanup_(free_mem) char *sealed = NULL;
    _cleanup_(json_clear_ref) json_t *described = json_object();
    problem_t problem = {0};
    char *key = NULL, why[160];
    int r;

    r = read_file(host, host->certificate_file, &chain);
    if (!chain)
        return r;
    if (!strcmp(chain, text_of(row, "local_certificate_pem")))
        return 0;
    r = read_file(host, host->key_file, &key);
    if (!r && x509_describe(chain, key, described, &problem)) {
        snprintf(why, sizeof(why), "%s and %s-key are no certificate and its key",
                 host->certificate, host->certificate);
        r = fault(-EINVAL, why);
    }
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

/* Inside a transaction: delete the domains that earlier values of the settings left. */
static int drop_others(crud_t *crud)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT id FROM reserved_domain WHERE account_id = $1 AND domain <> $2 AND "
                    "domain <> $3",
                    3, NOBODY, hosts[0].name, hosts[1].name);

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
static int find_row(crud_t *crud, const own_host_t *host, json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char why[700];
    int r = pg_exec(crud->pg, &res,
                    "SELECT to_jsonb(t), account_id FROM reserved_domain t WHERE domain = $1", 1,
                    host->name);

    if (r)
        return r;
    if (!PQntuples(res)) {
        *ret_row = json_pack("{s:s}", "domain", host->name);
        return *ret_row ? 0 : -ENOMEM;
    }
    if (strcmp(PQgetvalue(res, 0, 1), NOBODY)) {
        snprintf(why, sizeof(why),
                 "%s, the host name of %s, is reserved by account %s: delete it there first",
                 host->name, host->what, PQgetvalue(res, 0, 1));
        return fault(-EEXIST, why);
    }
    *ret_row = json_loads(PQgetvalue(res, 0, 0), 0, NULL);
    return *ret_row ? 0 : -ENOMEM;
}

static int write_row(crud_t *crud, const own_host_t *host, json_t *row)
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
                        "VALUES ($1, $2, now(), $4, '', $3, '', '[]')",
                        4, id, NOBODY, host->name, host->what);
    }
    return r ? r
             : pg_exec(crud->pg, NULL,
                       "UPDATE reserved_domain SET local_certificate_pem = $2, "
                       "local_key_sealed = $3, metadata = $4 WHERE id = $1",
                       4, text_of(row, "id"), text_of(row, "local_certificate_pem"),
                       text_of(row, "local_key_sealed"), text_of(row, "metadata"));
}

static int refresh_row(crud_t *crud, const own_host_t *host)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *document = NULL;
    bool changed = false;
    int r;

    r = pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended('api host', 0))", 0);
    if (!r)
        r = drop_others(crud);
    if (r || !*host->name)
        return r;
    r = find_row(crud, host, &row);
    if (!r)
        r = *host->certificate_file ? take_given(crud, host, row, &changed)
                                    : take_local(crud, row, &changed);
    if (r || !changed)
        return r;
    r = write_row(crud, host, row);
    if (!r)
        r = reserved_domain_publish(crud, row, &document);
    if (!r)
        r = crud_publish(crud, "reserved_domain", text_of(row, "id"), document);
    if (!r)
        log_info("%s has a new certificate as %s (%s)", host->what, host->name,
                 text_of(row, "metadata"));
    return r;
}

/* What is wrong with the certificate of one leaves the other's as it is. */
int api_host_refresh(crud_t *crud, int64_t *ret_revision)
{
    int result = 0;

    *ret_revision = 0;
    for (size_t i = 0; i < LEN(hosts); i++) {
        int64_t revision = 0;
        int r = crud_begin(crud);

        if (!r)
            r = refresh_row(crud, &hosts[i]);
        r = crud_end(crud, r, &revision);
        if (revision)
            *ret_revision = revision;
        if (!result)
            result = r;
    }
    return result;
}

/* ---- settings ---- */

static bool is_name(const char *name)
{
    return strlen(name) <= 253 && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.")]
           && strchr(name, '.') && *name != '.';
}

static int take_files(own_host_t *host, const config_t *config)
{
    char setting[64], why[160];

    snprintf(setting, sizeof(setting), "%s-key", host->certificate);
    snprintf(host->certificate_file, sizeof(host->certificate_file), "%s",
             config_str(config, host->certificate));
    snprintf(host->key_file, sizeof(host->key_file), "%s", config_str(config, setting));
    if (!*host->certificate_file == !*host->key_file)
        return 0;
    snprintf(why, sizeof(why), "%s and %s must be set together", host->certificate, setting);
    return fault(-EINVAL, why);
}

int api_host_setup(crud_t *crud, const config_t *config)
{
    const char *name = config_str(config, "api-host"), *sign_in = sign_in_host();
    int64_t revision;
    int r = 0;

    if (*name && !is_name(name))
        return fault(-EINVAL, "api-host must be a host name in lower case, with a dot in it");
    if (*name && !strcmp(name, sign_in))
        return fault(-EINVAL, "api-host and the host of idp-url must be two");
    snprintf(hosts[0].name, sizeof(hosts[0].name), "%s", name);
    if (is_name(sign_in))
        snprintf(hosts[1].name, sizeof(hosts[1].name), "%s", sign_in);
    else
        log_warn("idp-url %s has no host name with a dot in it: nobody can sign in", sign_in_url());
    for (size_t i = 0; !r && i < LEN(hosts); i++)
        r = take_files(&hosts[i], config);
    return r ? r : api_host_refresh(crud, &revision);
}
