/* Claims on names, over all accounts (table name_claim): a name that one account holds no other
 * account can take, narrow or shadow. A wildcard holds every name below it, at any depth.
 * Concurrent claims are ordered by advisory locks: exclusive on the name itself, shared on each
 * wildcard over it, so that unrelated names do not wait for each other. */
#include "common/base/cleanup.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_wildcard(const char *name)
{
    return name[0] == '*';
}

static const char *sign_in = ""; /* of setting idp-url */
static char sign_in_name[260];   /* its host in lower case; "" where it names none */

void names_setup(const config_t *config)
{
    const char *at;
    size_t len;

    sign_in = config_str(config, "idp-url");
    at = strstr(sign_in, "://");
    at = at ? at + 3 : sign_in;
    len = strcspn(at, ":/?#");
    snprintf(sign_in_name, sizeof(sign_in_name), "%.*s", len < sizeof(sign_in_name) ? (int)len : 0,
             at);
    for (char *c = sign_in_name; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + 'a' - 'A');
}

const char *sign_in_url(void)
{
    return sign_in;
}

const char *sign_in_host(void)
{
    return sign_in_name;
}

/* Is it the same name, or a wildcard over it? */
static bool name_covers(const char *name, const char *host)
{
    size_t len = strlen(host), below = strlen(name) - 1;

    return *host
           && (!strcmp(name, host)
               || (is_wildcard(name) && len > below && !strcmp(host + len - below, name + 1)));
}

bool name_is_own(const char *host)
{
    return (*api_host() && !strcmp(host, api_host())) || !strcmp(host, sign_in_host());
}

static int check_own(const char *name, const char *path, problem_t *problem)
{
    if (name_covers(name, api_host()))
        return problem_add(problem, ERR_TAKEN_BY_OTHER_ACCOUNT, path,
                           "is the API's own host, or would cover it");
    if (name_covers(name, sign_in_host()))
        return problem_add(problem, ERR_TAKEN_BY_OTHER_ACCOUNT, path,
                           "is the host of the sign-in endpoints, or would cover it");
    return 0;
}

/* The wildcards over a name, the widest first. All claims lock them in that order, so there is no
 * deadlock. */
static json_t *wildcards_over(const char *name)
{
    json_t *out = json_array();
    const char *at = is_wildcard(name) ? name + 2 : name;

    while ((at = strchr(at, '.')))
        json_array_insert_new(out, 0, json_sprintf("*%s", at++));
    return out;
}

/* The name from its end, so that "all names below z" is a prefix search. */
static void reverse_text(const char *text, char *out)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        out[i] = text[len - 1 - i];
    out[len] = '\0';
}

static int lock_name(crud_t *crud, const char *name, const char *over)
{
    int r = pg_defer(crud->pg,
                     "SELECT pg_advisory_xact_lock_shared(hashtextextended(n, 1)) "
                     "FROM jsonb_array_elements_text($1::jsonb) n",
                     1, over);

    return r ? r
             : pg_defer(crud->pg, "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", 1, name);
}

int name_claim(crud_t *crud, const char *owner_id, const char *name, const char *path,
               problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *wildcards = wildcards_over(name);
    _cleanup_(free_mem) char *over = wildcards ? json_dumps(wildcards, JSON_COMPACT) : NULL;
    _cleanup_(pgresult_clear) PGresult *others = NULL;
    char first[260] = "", last[260] = "";
    int r;

    if (!over || strlen(name) >= sizeof(first))
        return -ENOMEM;
    r = check_own(name, path, problem);
    if (r)
        return r;
    if (is_wildcard(name)) {
        reverse_text(name + 1, first);
        snprintf(last, sizeof(last), "%s", first);
        last[strlen(last) - 1] = '.' + 1;
    }
    r = lock_name(crud, name, over);
    if (!r)
        r = pg_exec(crud->pg, &others,
                    "SELECT 1 FROM name_claim WHERE account_id <> $1 AND name = ANY ($2::text || "
                    "ARRAY(SELECT jsonb_array_elements_text($3::jsonb))) "
                    "UNION ALL SELECT 1 FROM name_claim WHERE account_id <> $1 "
                    "AND reverse(name) >= $4 AND reverse(name) < $5 LIMIT 1",
                    5, crud->request->account, name, over, first, last);
    if (r)
        return r;
    if (PQntuples(others)) /* the error must not tell whose it is */
        return problem_add(problem, ERR_TAKEN_BY_OTHER_ACCOUNT, path,
                           "is reserved by another account, or overlaps with what is");
    return pg_defer(crud->pg,
                    "INSERT INTO name_claim (name, account_id, owner_id) VALUES ($1, $2, $3) "
                    "ON CONFLICT DO NOTHING",
                    3, name, crud->request->account, owner_id);
}
