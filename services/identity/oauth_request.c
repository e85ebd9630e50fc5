/* Requests of the oauth engine: URLs, forms and headers. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oauth_internal.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- scopes ---- */

/* scope-token of RFC 6749 3.3. */
static bool scope_is_one(const char *scope)
{
    for (const char *c = scope; *c; c++)
        if (*c < 0x21 || *c > 0x7e || *c == '"' || *c == '\\' || *c == ',')
            return false;
    return *scope != '\0';
}

static bool has_scope(const char *list, const char *scope, size_t len)
{
    for (const char *at = list; *at;) {
        size_t one = strcspn(at, " ,");

        if (one == len && !strncmp(at, scope, len))
            return true;
        at += one + (at[one] != '\0');
    }
    return false;
}

static void add_scope(provider_text_t *list, const char *separator, const char *scope, size_t len)
{
    if (has_scope(list->bytes, scope, len))
        return;
    provider_text_add(list, list->len ? separator : "");
    provider_text_add_bytes(list, scope, len);
}

static void add_scopes(provider_text_t *list, const char *separator, const char *scopes)
{
    for (const char *at = scopes; at && *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");

        add_scope(list, separator, at, len);
        at += len;
    }
}

char *oauth_scopes(const oauth_flow_t *flow, const json_t *own)
{
    const oauth_row_t *row = flow->row;
    provider_text_t list = {0};
    const json_t *item;
    char *scopes = NULL;
    bool is_bad = own && !json_is_array(own) && !json_is_null(own);
    size_t i;

    provider_text_begin(&list, "");
    add_scopes(&list, row->separator, row->scopes);
    if (flow->is_checked_again)
        add_scopes(&list, row->separator, row->offline_scope);
    json_array_foreach(own, i, item)
    {
        const char *scope = json_string_value(item);

        is_bad = is_bad || !scope || !scope_is_one(scope);
        if (!is_bad)
            add_scope(&list, row->separator, scope, strlen(scope));
    }
    if (!is_bad && !list.is_full)
        scopes = memory_copy(list.bytes, "scopes");
    provider_text_end(&list);
    return scopes;
}

/* ---- the browser's ---- */

static void add_challenge(oauth_flow_t *flow)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char challenge[sodium_base64_ENCODED_LEN(sizeof(digest),
                                             sodium_base64_VARIANT_URLSAFE_NO_PADDING)];

    crypto_hash_sha256(digest, (const unsigned char *)flow->verifier, strlen(flow->verifier));
    sodium_bin2base64(challenge, sizeof(challenge), digest, sizeof(digest),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    provider_text_pair(&flow->url, "code_challenge", challenge);
    provider_text_pair(&flow->url, "code_challenge_method", "S256");
}

/* A parameter of the table, which is encoded as it stands there. */
static void add_parameter(provider_text_t *url, const char *parameter)
{
    provider_text_add(url, "&");
    provider_text_add(url, parameter);
}

void oauth_ask_authorize(oauth_flow_t *flow, bool force)
{
    provider_text_begin(&flow->url, flow->place.sign_in);
    provider_text_add(&flow->url, flow->row->authorize);
    provider_text_pair(&flow->url, "response_type", "code");
    provider_text_pair(&flow->url, "client_id", flow->client_id);
    provider_text_pair(&flow->url, "redirect_uri", flow->redirect_uri);
    provider_text_pair(&flow->url, "scope", flow->scopes);
    provider_text_pair(&flow->url, "state", flow->state);
    if (flow->row->pkce)
        add_challenge(flow);
    if (flow->row->offline && flow->is_checked_again)
        add_parameter(&flow->url, flow->row->offline);
    if (flow->row->force && force)
        add_parameter(&flow->url, flow->row->force);
}

/* ---- the service's ---- */

static void clear_headers(oauth_flow_t *flow)
{
    for (size_t i = 0; i < FETCH_HEADERS; i++)
        oauth_set(&flow->headers[i], NULL);
}

static void add_header(oauth_flow_t *flow, const char *name, const char *value)
{
    size_t i = 0;
    provider_text_t line = {0};

    provider_text_begin(&line, name);
    provider_text_add(&line, value);
    while (i < FETCH_HEADERS - 1 && flow->headers[i])
        i++;
    if (line.is_full || flow->headers[i])
        flow->url.is_full = true; /* never sent without a header */
    else
        oauth_set(&flow->headers[i], line.bytes);
    provider_text_end(&line);
}

static void begin_request(oauth_flow_t *flow, const char *base, const char *path, size_t max_bytes)
{
    clear_headers(flow);
    provider_text_end(&flow->body);
    provider_text_begin(&flow->url, base);
    provider_text_add(&flow->url, path);
    add_header(flow, "Accept: ", "application/json");
    add_header(flow, "User-Agent: ", "Postern");
    flow->max_bytes = max_bytes;
}

/* The application says who it is in the body, which every provider takes. */
static void begin_form(oauth_flow_t *flow, const char *grant)
{
    begin_request(flow, flow->place.token_base, flow->row->token, OAUTH_TOKEN_ANSWER_MAX);
    add_header(flow, "Content-Type: ", "application/x-www-form-urlencoded");
    provider_text_begin(&flow->body, "");
    provider_text_pair(&flow->body, "grant_type", grant);
    provider_text_pair(&flow->body, "client_id", flow->client_id);
    provider_text_pair(&flow->body, "client_secret", flow->client_secret);
}

void oauth_ask_token(oauth_flow_t *flow)
{
    if (flow->operation == PROVIDER_REFRESH) {
        begin_form(flow, "refresh_token");
        provider_text_pair(&flow->body, "refresh_token", flow->refresh_token);
        return;
    }
    begin_form(flow, "authorization_code");
    provider_text_pair(&flow->body, "code", flow->code);
    provider_text_pair(&flow->body, "redirect_uri", flow->redirect_uri);
    if (flow->row->pkce)
        provider_text_pair(&flow->body, "code_verifier", flow->verifier);
}

void oauth_ask_long_lived(oauth_flow_t *flow)
{
    begin_form(flow, "fb_exchange_token");
    provider_text_pair(&flow->body, "fb_exchange_token", flow->access_token);
}

/* Hexadecimal HMAC-SHA256 of the access token under the application's secret. */
static void add_proof(oauth_flow_t *flow)
{
    crypto_auth_hmacsha256_state state;
    unsigned char digest[crypto_auth_hmacsha256_BYTES];
    char hex[2 * sizeof(digest) + 1];

    crypto_auth_hmacsha256_init(&state, (const unsigned char *)flow->client_secret,
                                strlen(flow->client_secret));
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)flow->access_token,
                                  strlen(flow->access_token));
    crypto_auth_hmacsha256_final(&state, digest);
    sodium_memzero(&state, sizeof(state));
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    provider_text_pair(&flow->url, "appsecret_proof", hex);
}

static void begin_api(oauth_flow_t *flow, const char *path, size_t max_bytes)
{
    begin_request(flow, flow->place.api, path, max_bytes);
    add_header(flow, "Authorization: Bearer ", flow->access_token);
    if (flow->row->header)
        add_header(flow, flow->row->header, "");
    if (flow->row->quirks & OAUTH_NEEDS_CLIENT_ID)
        add_header(flow, "Client-Id: ", flow->client_id);
    if (flow->row->quirks & OAUTH_NEEDS_PROOF)
        add_proof(flow);
}

void oauth_ask_permissions(oauth_flow_t *flow)
{
    begin_api(flow, "/me/permissions", OAUTH_USER_ANSWER_MAX);
}

void oauth_ask_user(oauth_flow_t *flow)
{
    begin_api(flow, flow->row->user, OAUTH_USER_ANSWER_MAX);
}

void oauth_ask_mails(oauth_flow_t *flow)
{
    begin_api(flow, "/user/emails", OAUTH_USER_ANSWER_MAX);
}

static void ask_page(oauth_flow_t *flow, const char *path)
{
    begin_api(flow, path, OAUTH_PAGE_ANSWER_MAX);
    if (*flow->next_page)
        provider_text_begin(&flow->url, flow->next_page);
    else
        provider_text_pair(&flow->url, "per_page", "100");
    flow->pages++;
}

void oauth_ask_teams(oauth_flow_t *flow)
{
    ask_page(flow, "/user/teams");
}

void oauth_ask_organizations(oauth_flow_t *flow)
{
    ask_page(flow, "/user/orgs");
}
