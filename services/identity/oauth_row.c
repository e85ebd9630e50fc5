/* The table of OAuth providers, and the operator's settings of them. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "services/identity/oauth_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { SECRET_MAX = 4096, BASE_MAX = 255, BASES = 3 };

static const oauth_row_t rows[] = {
#define OAUTH_PROVIDER(name_, app_, ...) {.name = #name_, __VA_ARGS__},
#include "proto/oauth_providers.def"
};

enum { ROWS = LEN(rows) };

/* Whether the operator may have an application at a row's provider. */
static const bool is_managed[] = {
#define MANAGED                          true
#define OWN_ONLY                         false
#define OAUTH_PROVIDER(name_, app_, ...) app_,
#include "proto/oauth_providers.def"
#undef MANAGED
#undef OWN_ONLY
};

/* What the settings say of a row; NULL: nothing. */
static struct given {
    char *bases[BASES]; /* sign-in, API, token */
    char *client_id, *client_secret;
} given[ROWS];

/* ---- finding a row ---- */

static const char *token_base_of(const oauth_row_t *row, const struct given *own,
                                 const oauth_place_t *place)
{
    if (own->bases[2])
        return own->bases[2];
    if (row->quirks & OAUTH_TOKEN_AT_API)
        return place->api;
    return row->token_base && !own->bases[0] ? row->token_base : place->sign_in;
}

const oauth_row_t *oauth_row_find(const char *name, oauth_place_t *place)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct given *own = &given[i];

        if (strcmp(rows[i].name, name) != 0)
            continue;
        *place = (oauth_place_t){
            .sign_in = own->bases[0] ? own->bases[0] : rows[i].sign_in,
            .api = own->bases[1] ? own->bases[1] : rows[i].api,
            .client_id = own->client_id,
            .client_secret = own->client_secret,
            .has_own_sign_in = own->bases[0] != NULL,
        };
        place->token_base = token_base_of(&rows[i], own, place);
        return &rows[i];
    }
    return NULL;
}

/* ---- settings ---- */

static const char *setting_of(const config_t *config, const oauth_row_t *row, const char *what)
{
    char name[64];

    snprintf(name, sizeof(name), "oauth-%s-%s", row->name, what);
    return config_str(config, name);
}

static int setting_fault(const oauth_row_t *row, const char *what, const char *why)
{
    char name[64], env[80];

    snprintf(name, sizeof(name), "oauth-%s-%s", row->name, what);
    config_env_name(name, env, sizeof(env));
    log_error("%s (--%s): %s", env, name, why);
    return fault(-EINVAL, "read the settings of OAuth providers");
}

/* A base is https, host, and perhaps port and path: with a name, a query or a fragment a path that
 * is put behind it would lead elsewhere. */
static const char *base_fault(const char *base)
{
    const char *host = base + strlen("https://");
    size_t len;

    if (strncmp(base, "https://", strlen("https://")) != 0)
        return "every URL begins with https://";
    len = strcspn(host, "/");
    if (!len || host[0] == ':' || strlen(base) > BASE_MAX)
        return "every URL has a host, and at most 255 bytes";
    for (const char *c = host; *c; c++)
        if (*c < 0x21 || *c > 0x7e || strchr("@?#\\\"<>", *c))
            return "a URL has neither user, query nor fragment";
    return NULL;
}

/* Sign-in, API and token, in this order; a row with own_api has its API below sign-in. */
static int read_bases(const oauth_row_t *row, const char *list, struct given *out)
{
    char api[2 * BASE_MAX];
    size_t count = 0;

    for (const char *at = list + strspn(list, " "); *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        _cleanup_(free_mem) char *base = memory_need(strndup(at, len), "a provider's URL");
        const char *why = base_fault(base);

        at += len;
        if (why || count == BASES)
            return setting_fault(row, "url", why ? why : "has more than three URLs");
        for (size_t end = strlen(base); base[end - 1] == '/'; end--)
            base[end - 1] = '\0';
        out->bases[count++] = take(base);
    }
    if (count == 1 && row->own_api) {
        snprintf(api, sizeof(api), "%s%s", out->bases[0], row->own_api);
        out->bases[1] = memory_copy(api, "a provider's URL");
    }
    return 0;
}

/* A secret is the setting itself or, behind an @, what a file holds without the line's end. */
static int read_secret(const oauth_row_t *row, const char *setting, char **ret_secret)
{
    char text[SECRET_MAX + 2];
    ssize_t len;
    _cleanup_(fd_close) int fd = -1;

    if (*setting != '@') {
        *ret_secret = memory_copy(setting, "a client secret");
        return 0;
    }
    fd = open(setting + 1, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (len < 0)
        return setting_fault(row, "client-secret",
                             errno == ENOENT   ? "the file that it names is not there"
                             : errno == EACCES ? "the file that it names may not be read"
                                               : strerror(errno));
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (*text && len <= SECRET_MAX)
        *ret_secret = memory_copy(text, "a client secret");
    sodium_memzero(text, sizeof(text));
    return *ret_secret ? 0
                       : setting_fault(row, "client-secret", "the file is empty, or is too long");
}

static int read_row(const config_t *config, size_t row)
{
    const char *id, *secret;
    int r = read_bases(&rows[row], setting_of(config, &rows[row], "url"), &given[row]);

    if (r || !is_managed[row])
        return r;
    id = setting_of(config, &rows[row], "client-id");
    secret = setting_of(config, &rows[row], "client-secret");
    if (!*id != !*secret)
        return setting_fault(&rows[row], "client-id", "id and secret belong together");
    if (!*id)
        return 0;
    given[row].client_id = memory_copy(id, "a client id");
    return read_secret(&rows[row], secret, &given[row].client_secret);
}

int oauth_setup(const config_t *config)
{
    int r = 0;

    oauth_done();
    for (size_t row = 0; !r && row < ROWS; row++)
        r = read_row(config, row);
    return r;
}

void oauth_done(void)
{
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t i = 0; i < BASES; i++)
            free_mem(&given[row].bases[i]);
        oauth_set(&given[row].client_id, NULL);
        oauth_set(&given[row].client_secret, NULL);
    }
}
