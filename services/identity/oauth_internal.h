/* What the files of the oauth engine share. */
#pragma once

#include "services/identity/oauth.h"
#include "services/identity/provider_text.h"

enum {
    OAUTH_URL_MAX = 8 << 10, /* what the way out takes */
    OAUTH_TOKEN_MAX = 8 << 10,
    OAUTH_CODE_MAX = 4 << 10,
    OAUTH_ID_MAX = 255, /* bytes, also of names */
    OAUTH_EMAIL_MAX = 254,
    OAUTH_WHY_MAX = 256,
    OAUTH_PAGES_MAX = 50, /* of teams or organizations, 100 of them each */
    OAUTH_TOKEN_ANSWER_MAX = 64 << 10,
    OAUTH_USER_ANSWER_MAX = 256 << 10,
    OAUTH_PAGE_ANSWER_MAX = 1 << 20,
    OAUTH_TIMEOUT_MS = 10000
};

typedef struct oauth_flow oauth_flow_t;

/* ---- oauth_row.c: the table, and what the settings put in its place ---- */

typedef enum oauth_quirk {
    OAUTH_TOKEN_AT_API = 1,
    OAUTH_NEEDS_CLIENT_ID = 2,
    OAUTH_NEEDS_PROOF = 4,
    OAUTH_CHECKS_PERMISSIONS = 8,
    OAUTH_LONG_LIVES = 16,
    OAUTH_HAS_MAILS = 32,
    OAUTH_HAS_TEAMS = 64,
    OAUTH_SAYS_GONE = 128,
    OAUTH_SAYS_ISSUER = 256,
    OAUTH_NUMBERS_ERRORS = 512
} oauth_quirk_t;

typedef struct oauth_row {
    const char *name;
    const char *sign_in, *api, *own_api, *token_base;
    const char *authorize, *token, *user;
    const char *scopes, *separator, *offline_scope, *offline, *force;
    const char *id, *username, *name_at, *email, *verified;
    const char *header;
    bool pkce;
    unsigned quirks; /* oauth_quirk_t */
    /* Does a granted scope hold the wanted one? They are not the same. */
    bool (*grants)(const char *granted, const char *wanted);
    /* Set the flow's address and whether it is verified from the answer of user. */
    void (*mail)(oauth_flow_t *flow, const json_t *user);
} oauth_row_t;

/* Where a provider is, and the operator's application there. Borrowed, for the program's life. */
typedef struct oauth_place {
    const char *sign_in, *api, *token_base; /* https, without a slash at the end */
    const char *client_id, *client_secret;  /* NULL: none */
    bool has_own_sign_in;                   /* sign_in is the operator's choice */
} oauth_place_t;

/* The row of this name, and its place. NULL: there is none. */
const oauth_row_t *oauth_row_find(const char *name, oauth_place_t *place);

/* ---- oauth_request.c: what is sent ---- */

/* Every scope that a sign-in asks for, with the row's separator between; the caller frees it. NULL:
 * the route asks for one that is none (RFC 6749 3.3). */
char *oauth_scopes(const oauth_flow_t *flow, const json_t *own);

/* URL of the provider's page, into flow->url. */
void oauth_ask_authorize(oauth_flow_t *flow, bool force);
/* The requests. Each sets url, headers and body of the flow. */
void oauth_ask_token(oauth_flow_t *flow);
void oauth_ask_long_lived(oauth_flow_t *flow);
void oauth_ask_permissions(oauth_flow_t *flow);
void oauth_ask_user(oauth_flow_t *flow);
void oauth_ask_mails(oauth_flow_t *flow);
void oauth_ask_teams(oauth_flow_t *flow);
void oauth_ask_organizations(oauth_flow_t *flow);

/* ---- oauth_answer.c: what came back, and what it means ---- */

/* End the flow with this step; why is made printable. Returns step. */
provider_step_t oauth_fail(oauth_flow_t *flow, provider_step_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* End the flow with what an error code of the provider means; what: of which request. Returns the
 * step. */
provider_step_t oauth_fail_error(oauth_flow_t *flow, const char *what, const char *error);

/* Judge an answer of the provider's API by how it ended and its status. PROVIDER_DONE: it is to be
 * read. */
provider_step_t oauth_judge(oauth_flow_t *flow, const fetched_t *answer);

/* Has the provider had too many requests? GitHub answers 403 then, and says so in words. */
bool oauth_is_rate_limit(const fetched_t *answer);

/* The JSON of an answer, with a bound for what it takes: the caller's. NULL: it is none. */
json_t *oauth_json(const fetched_t *answer);

/* The value at a path of a row; NULL: there is none. Borrowed. */
const json_t *oauth_at(const json_t *value, const char *path);

/* Read the answer to a token request. */
provider_step_t oauth_read_token(oauth_flow_t *flow, const fetched_t *answer);

/* Was every scope granted that was asked for? granted: separated by spaces or commas, or a JSON
 * array; NULL: the provider says that it gave what was asked for. */
provider_step_t oauth_check_scopes(oauth_flow_t *flow, const json_t *granted);

/* ---- oauth_user.c: who it is ---- */

/* Read an answer of the API. PROVIDER_DONE: go on | PROVIDER_FETCH: the list has another page | the
 * outcome. */
provider_step_t oauth_read_permissions(oauth_flow_t *flow, const fetched_t *answer);
provider_step_t oauth_read_user(oauth_flow_t *flow, const fetched_t *answer);
provider_step_t oauth_read_mails(oauth_flow_t *flow, const fetched_t *answer);
provider_step_t oauth_read_teams(oauth_flow_t *flow, const fetched_t *answer);
provider_step_t oauth_read_organizations(oauth_flow_t *flow, const fetched_t *answer);

/* Set the address; what is none, or too long, is as if the provider gave none. */
void oauth_set_email(oauth_flow_t *flow, const char *email, bool is_verified);

/* The named functions of the rows. */
bool github_grants(const char *granted, const char *wanted);
bool google_grants(const char *granted, const char *wanted);
bool microsoft_grants(const char *granted, const char *wanted);
void microsoft_mail(oauth_flow_t *flow, const json_t *user);

/* The next page of a Link header (RFC 8288), which must be this URL but for its query; out has
 * OAUTH_URL_MAX bytes. 0: there is none | 1 | -EBADMSG: it leads elsewhere, or cannot be read. */
int oauth_next_page(const char *link, const char *url, char *out);

/* ---- oauth.c ---- */

struct oauth_flow {
    const oauth_row_t *row;
    oauth_place_t place;
    int operation;           /* provider_operation_t */
    int stage;               /* index of the request whose answer is awaited; -1: none yet */
    provider_step_t outcome; /* PROVIDER_FETCH: none yet */
    char why[OAUTH_WHY_MAX];
    int64_t now_s;
    bool is_checked_again; /* auth_check_interval: the provider is asked again later */

    /* What the flow was begun with; copies, NULL where there is none. */
    char *client_id, *client_secret, *redirect_uri, *state, *verifier, *scopes, *code, *known_id;
    json_t *teams, *organizations; /* the route's rules; NULL: none */

    /* The request. */
    provider_text_t url, body;
    char *headers[FETCH_HEADERS];
    size_t max_bytes;
    char next_page[OAUTH_URL_MAX]; /* "": the first one */
    unsigned pages;

    /* What is known of the person. */
    char *access_token, *refresh_token;
    int64_t access_expires_s;
    bool has_new_tokens; /* of an answer of this flow */
    char *id, *username, *name, *email;
    bool email_verified;
    json_t *groups;
};

/* Replace a text by a copy; the old one is wiped. NULL: none. */
void oauth_set(char **text_p, const char *value);
