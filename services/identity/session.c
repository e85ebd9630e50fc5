/* Rows of sessions: what there is of one, and what edges are told. */
#include "services/identity/session.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TOKENS "tokens of a session"

void session_done(session_t *self)
{
    person_done(&self->person);
}

char *session_seal_tokens(crud_t *crud, const person_t *person)
{
    bool any = person->refresh_token || person->access_token || person->id_token
               || person->session_at_provider;
    json_t *tokens = person_tokens(person);
    char *text = any ? json_dumps(tokens, JSON_COMPACT) : NULL, *sealed = any ? NULL : strdup("");

    if (text) {
        sealed = secret_seal_for(crud->key, TOKENS, text, strlen(text));
        secret_free(&text, strlen(text));
    }
    json_decref(tokens);
    return sealed;
}

static int open_tokens(crud_t *crud, const char *sealed, person_t *person)
{
    _cleanup_(json_clear_ref) json_t *tokens = NULL;
    size_t len = 0;
    char *text = NULL;
    int r;

    if (!*sealed)
        return 0;
    r = secret_open_for(crud->key, TOKENS, sealed, &text, &len);
    if (r)
        return fault(r, "open a session's tokens: is this the master key that sealed them?");
    tokens = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    person_add_tokens(person, tokens);
    return 0;
}

/* Columns of the query below, in its order. */
enum {
    AT_ID,
    AT_USER,
    AT_ACCOUNT,
    AT_EDGE,
    AT_ROUTE,
    AT_DIGEST,
    AT_PROVIDER,
    AT_URL,
    AT_PERSON,
    AT_USERNAME,
    AT_NAME,
    AT_EMAIL,
    AT_VERIFIED,
    AT_GROUPS,
    AT_TOKENS,
    AT_CREATED,
    AT_EXPIRES,
    AT_DUE,
    AT_INACTIVITY,
    AT_ACTIVE,
    AT_CHECKED,
    AT_RETRY,
    AT_UNTIL,
    AT_CLIENT,
    AT_SOURCE,
    AT_PLACE,
    AT_PUBLIC_URL,
    AT_REVISION,
    AT_NOW
};

static int64_t number_at(const PGresult *res, int column)
{
    return strtoll(PQgetvalue(res, 0, column), NULL, 10);
}

static void copy_at(const PGresult *res, int column, char *out, size_t size)
{
    snprintf(out, size, "%s", PQgetvalue(res, 0, column));
}

/* NULL where it is empty. */
static char *text_at(const PGresult *res, int column)
{
    const char *text = PQgetvalue(res, 0, column);

    return *text ? memory_copy(text, "what is known of a person") : NULL;
}

static void read_person(const PGresult *res, person_t *out)
{
    out->provider_name = text_at(res, AT_PROVIDER);
    out->provider_url = text_at(res, AT_URL);
    out->id = text_at(res, AT_PERSON);
    out->username = text_at(res, AT_USERNAME);
    out->name = text_at(res, AT_NAME);
    out->email = text_at(res, AT_EMAIL);
    out->email_verified = *PQgetvalue(res, 0, AT_VERIFIED) == 't';
    out->groups = json_loads(PQgetvalue(res, 0, AT_GROUPS), 0, NULL);
}

int session_load(crud_t *crud, const char *hash, session_t *out)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    *out = (session_t){0};
    r = pg_exec(crud->pg, &res,
                "SELECT s.session_id, u.id, a.account_id, a.edge_id, a.route_id, s.digest, "
                "coalesce(s.claims->>'provider', u.identity_provider->>'name'), "
                "u.identity_provider->>'url', u.provider_user_id, "
                "CASE WHEN s.claims IS NULL THEN u.username ELSE s.claims->>'username' END, "
                "CASE WHEN s.claims IS NULL THEN u.name ELSE s.claims->>'name' END, "
                "CASE WHEN s.claims IS NULL THEN u.email ELSE s.claims->>'email' END, "
                "s.email_verified, s.groups, s.tokens, s.created_ms, "
                "s.expires_ms, s.due_ms, s.inactivity_ms, s.last_active_ms, s.checked_ms, "
                "s.retry_ms, s.until_ms, coalesce(s.client_hash, ''), CASE WHEN s.claims IS NULL "
                "THEN '' ELSE s.source END, "
                "coalesce(s.counts_at, s.place, format('%s %s ', a.route_id, s.module)), "
                "a.public_url, s.rules_revision, "
                "(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
                "FROM sign_in_session s "
                "JOIN application_session a ON a.id = s.session_id "
                "JOIN application_user u ON u.id = a.application_user_id "
                "WHERE a.token_hash = $1",
                1, hash);
    if (r || !PQntuples(res))
        return r ? r : ERR_SESSION_GONE;
    copy_at(res, AT_ID, out->id, sizeof(out->id));
    copy_at(res, AT_USER, out->user, sizeof(out->user));
    copy_at(res, AT_ACCOUNT, out->account, sizeof(out->account));
    copy_at(res, AT_EDGE, out->edge, sizeof(out->edge));
    copy_at(res, AT_ROUTE, out->route, sizeof(out->route));
    copy_at(res, AT_DIGEST, out->digest, sizeof(out->digest));
    snprintf(out->hash, sizeof(out->hash), "%s", hash);
    out->created_ms = number_at(res, AT_CREATED);
    out->expires_ms = number_at(res, AT_EXPIRES);
    out->due_ms = number_at(res, AT_DUE);
    out->inactivity_ms = number_at(res, AT_INACTIVITY);
    out->last_active_ms = number_at(res, AT_ACTIVE);
    out->checked_ms = number_at(res, AT_CHECKED);
    out->retry_ms = number_at(res, AT_RETRY);
    out->until_ms = number_at(res, AT_UNTIL);
    out->revision = number_at(res, AT_REVISION);
    out->now_ms = number_at(res, AT_NOW);
    copy_at(res, AT_CLIENT, out->client, sizeof(out->client));
    copy_at(res, AT_SOURCE, out->source, sizeof(out->source));
    copy_at(res, AT_PLACE, out->place, sizeof(out->place));
    session_host(PQgetvalue(res, 0, AT_PUBLIC_URL), out->host);
    words_hex(PQgetvalue(res, 0, AT_TOKENS), out->tokens_hash);
    read_person(res, &out->person);
    return open_tokens(crud, PQgetvalue(res, 0, AT_TOKENS), &out->person);
}

/* Behind "__Host-", of the names that the module's cookies have. */
static const char *prefix_of(const sealed_t *sealed)
{
    const char *prefix = json_string_value(json_object_get(sealed->config, "cookie_prefix"));

    return prefix && *prefix ? prefix : SIGN_IN_PREFIX;
}

void session_place(const sealed_t *sealed, const char *host, char out[SESSION_PLACE_SIZE])
{
    char module[SEALED_PLACE_SIZE];

    sealed_place(sealed, module);
    snprintf(out, SESSION_PLACE_SIZE, "%s %s %s", module, prefix_of(sealed), host);
}

void session_host(const char *host, char out[SESSION_HOST_SIZE])
{
    static const char scheme[] = "https://";
    size_t len;

    if (host && !strncmp(host, scheme, strlen(scheme)))
        host += strlen(scheme);
    len = host ? strcspn(host, ":/ ") : 0;
    if (len >= SESSION_HOST_SIZE)
        len = 0;
    memcpy(out, host ? host : "", len);
    out[len] = '\0';
}

bool session_is_at_its_host(const session_t *self, const char *host)
{
    char name[SESSION_HOST_SIZE];

    session_host(host, name);
    return !host || !*self->host || !strcmp(self->host, name);
}

bool session_is_of_module(const session_t *self, const sealed_t *sealed)
{
    char module[SEALED_PLACE_SIZE];
    const char *rest, *prefix = prefix_of(sealed);
    size_t len;

    sealed_place(sealed, module);
    if (strncmp(self->place, module, strlen(module)) != 0)
        return false;
    rest = self->place + strlen(module);
    if (*rest != ' ')
        return !*rest;
    len = strcspn(++rest, " ");
    return !len || (len == strlen(prefix) && !memcmp(rest, prefix, len));
}

bool session_is_beside(const session_t *self, const sealed_t *sealed)
{
    return words_equal(self->account, sealed->account) && words_equal(self->edge, sealed->edge);
}

bool session_is_over(const session_t *self, int64_t now_ms)
{
    return self->expires_ms <= now_ms
           || (self->inactivity_ms && self->last_active_ms + self->inactivity_ms <= now_ms);
}

bool session_is_beyond(const session_t *self, const sealed_t *sealed)
{
    return sealed->revision < self->revision;
}

int session_lock_rules(crud_t *crud, const session_t *session, const sealed_t *sealed, bool ends)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_defer(crud->pg, "SELECT 1 FROM application_session WHERE id = $1 FOR UPDATE", 1,
                     session->id);

    if (!r)
        r = pg_exec(crud->pg, &res,
                    ends ? "SELECT rules_revision FROM sign_in_session WHERE session_id = $1"
                         : "SELECT rules_revision FROM sign_in_session WHERE session_id = $1 "
                           "FOR UPDATE",
                    1, session->id);
    if (r || !PQntuples(res))
        return r ? r : ERR_SESSION_GONE;
    return number_at(res, 0) > sealed->revision ? ERR_SESSION_STALE : 0;
}

json_t *session_json(const session_t *self)
{
    const person_t *who = &self->person;
    const char *email = person_vouched_email(who);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:O, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "id", self->id, "user", self->user, "route", self->route, "digest",
                     self->digest, "provider_user_id", who->id ? who->id : "", "name",
                     who->name ? who->name : "", "email", email ? email : "", "email_unverified",
                     person_unverified_email(who), "groups", who->groups, "created_ms",
                     (json_int_t)self->created_ms, "expires_ms", (json_int_t)self->expires_ms,
                     "due_ms", (json_int_t)self->due_ms, "inactivity_ms",
                     (json_int_t)self->inactivity_ms, "last_active_ms",
                     (json_int_t)self->last_active_ms, "checked_ms", (json_int_t)self->checked_ms);
}

void session_act_as(session_act_t *self, crud_t *crud, const char *account, const char *user,
                    const char *subject, const char *source)
{
    *self = (session_act_t){.crud = crud, .before = crud->request, .request = *crud->request};
    snprintf(self->request.account, sizeof(self->request.account), "%s", account);
    self->request.actor = json_pack("{s:s, s:s, s:s, s:n}", "id", user, "subject",
                                    subject ? subject : user, "source", source, "credential");
    crud->request = &self->request;
}

void session_act_done(session_act_t *self)
{
    json_decref(self->request.actor);
    self->crud->request = self->before;
}
