/* Engines of sign-in: the protocol of one kind of identity provider, as a state machine. An engine
 * has no sockets, no clock and no database: it is asked something, says which HTTP request it needs
 * next, is given what came of it, and ends with an outcome. Whoever drives it (sign_in_flow.c) does
 * the requests through the one way out, binds the flow to a browser, and decides with
 * sign_in_admits (rules.h) whether the person may enter. All that an engine is given but the
 * module's document is hostile: parameters of a callback and answers of a provider alike. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FETCH_HEADERS = 8 };

/* An HTTP request that a provider's flow needs next, or where verb is set a question to
 * postern-saml; owned by the flow, valid until the next step or the flow's end. */
typedef struct fetch {
    const char *method;           /* "GET" | "POST" */
    char *url;                    /* absolute */
    char *headers[FETCH_HEADERS]; /* "Name: value", ended by NULL */
    char *body;                   /* NULL: none */
    size_t body_len;
    size_t max_bytes; /* of the answer's body; at most 1 MiB */
    unsigned timeout_ms;
    unsigned least_ms; /* with less time than this for the answer it is not made: what it sends is
                          used up by it, and what comes for that must not be lost */
    const char *verb;  /* NULL: it is an HTTP request */
    json_t *question;  /* the verb's body */
} fetch_t;

enum { FETCH_ROTATES_MS = 5000 /* least_ms of a request that uses a refresh token up */ };

/* What came of it. Borrowed: valid during the call that is given it. Headers are NULL where the
 * answer has none of that name. */
typedef struct fetched {
    int end; /* an outbound_end_t (common/out/outbound.h); 0: answered, whatever the status */
    unsigned status;  /* of HTTP; 0: no response came */
    const char *body; /* of body_len bytes, and a NUL after them */
    size_t body_len;
    const char *retry_after, *link, *cache_control, *content_type;
    int code;           /* of a question: 0, or a code of proto/errors.def */
    const char *reason; /* of a code or an end, for logs; may hold the peer's bytes; NULL: none */
    const json_t *said; /* of a question: the answer; NULL: none */
} fetched_t;

typedef enum provider_step {
    PROVIDER_FETCH,      /* *out is the request to make; next is called with its answer */
    PROVIDER_DONE,       /* location (begin, leave) or person (callback, refresh) is the result */
    PROVIDER_DENIED,     /* the provider says no: consent refused, or the grant is revoked; of
                            bearer: the token is not good here */
    PROVIDER_INVALID,    /* an answer or a callback that breaks the protocol, or looks forged */
    PROVIDER_UNAVAILABLE /* the provider cannot be reached, or says that it is out of order */
} provider_step_t;

/* What an engine is asked for. */
typedef enum provider_operation {
    PROVIDER_BEGIN,    /* the URL of the provider to which the browser is sent */
    PROVIDER_CALLBACK, /* who the browser that came back with params is */
    PROVIDER_REFRESH,  /* what the provider says now about who is signed in (ask->known) */
    PROVIDER_LEAVE,    /* of oidc and saml: the URL at which who was signed in (ask->known) signs
                           out */
    PROVIDER_ENDED,    /* whose sessions end: of oidc by a logout token (params): oidc_ended; of
                           saml by a message (params as saml_message_read): saml_ended */
    PROVIDER_BEARER    /* of oidc: who has the JWT that a request brings (params) */
} provider_operation_t;

/* Who the provider says it is. Owns everything. */
typedef struct person {
    /* identity_provider of the API: of oidc "oidc" and the issuer, of oauth e.g. "github" and its
     * URL. Together with id they name the user within an account. */
    char *provider_name, *provider_url;
    char *id;        /* the provider's own, which it never gives to anybody else: sub */
    char *name_form; /* of SAML: what makes the id another one than the same text elsewhere
                        (saml_name_form); NULL: nothing */
    char *username, *name, *email; /* NULL: the provider does not say */
    bool email_verified;
    json_t *groups; /* array of texts: claims, or teams and organizations; may be empty */
    char *refresh_token, *access_token, *id_token; /* NULL: none */
    int64_t access_expires_s; /* of the access token, seconds since 1970; 0: unknown */
    /* sid of OpenID Connect; of SAML JSON of what its logout needs (saml.h); NULL: none */
    char *session_at_provider;
    int64_t vouched_ms; /* when the provider said this, by its clock (SAML: IssueInstant; OpenID
                           Connect: iat); 0: it does not say */
    /* The provider wants no session to last longer; of bearer the token's exp; 0: it does not
     * say. */
    int64_t session_until_s;
    /* What vouches for the person may do so once: SHA-256 of what names it, in hexadecimal, and how
     * long that must be remembered. NULL: its provider sees to that. */
    char *once;
    int64_t once_until_s;
} person_t;

/* Wipe the tokens and free what the person owns; *self is all zero then. */
void person_done(person_t *self);

struct provider_cache; /* documents of providers: metadata, keys; shared by the workers' threads */

/* What a flow begins with. Borrowed: valid during start only, except cache. */
typedef struct provider_ask {
    const json_t *config;     /* the module's document, opened, with its secrets */
    const char *module;       /* "oidc" | "oauth" | "saml" */
    const char *account;      /* whose route it is */
    const char *redirect_uri; /* https://H/oauth2/callback; of saml where it takes responses, of
                                 ended messages of logout; of leave where browsers come back to */
    const char *entity_id;    /* of saml: who this service provider is */
    /* Of begin and callback; NULL for refresh. state is put into the authorization URL as it is;
     * nonce and verifier (PKCE, RFC 7636) are 43 characters base64url, and never leave the service
     * but as the protocol says. */
    const char *state, *nonce, *verifier;
    const char *refresh_token, *access_token; /* of refresh; NULL: the session has none */
    const person_t *known; /* of refresh: who was signed in; the answer must be about the same id */
    const json_t *params;  /* of callback: {name: [values]}, decoded, as the browser brought them */
    int64_t now_s;         /* seconds since 1970 */
    bool force;            /* of begin: sign in anew, as somebody else (prompt); of callback: that
                              was asked for */
    int64_t asked_s;       /* of callback: when the person was sent there, or earlier; 0: nobody
                              was */
    struct provider_cache *cache;
} provider_ask_t;

/* An engine. Functions may be called from several threads, of one flow from one at a time. */
typedef struct provider {
    const char *module; /* of proto/modules.def, in lower case */
    /* Begin a flow. 0 | fault (-ENOMEM): *ret_flow is set for free also then. What is wrong with
     * ask is the outcome of the first next. */
    int (*start)(void **ret_flow, int operation, const provider_ask_t *ask);
    /* The next step: first with NULL, then with the answer to each request. Not after an outcome.
     * *out is set with PROVIDER_FETCH only. */
    provider_step_t (*next)(void *flow, const fetched_t *answer, fetch_t *out);
    /* After DONE of begin: the URL; borrowed. Of leave: also NULL, where the provider has none. */
    const char *(*location)(void *flow);
    /* The same where location is NULL: the form that the browser posts, {url, name, message,
     * relay_state?}; borrowed. NULL: there is none; the function itself: the engine never has. */
    const json_t *(*post)(void *flow);
    /* After DONE of callback, refresh or bearer: *out owns copies, for person_done. */
    void (*person)(void *flow, person_t *out);
    /* The tokens of an answer that this flow has had, also where what came behind it ended the flow
     * in any way: the provider may have made older ones void. *out owns copies, of tokens alone,
     * for person_done. False: no answer had any. NULL: the engine has no tokens. */
    bool (*tokens)(void *flow, person_t *out);
    /* Bytes that the flow holds between two steps, about; NULL: next to none. */
    size_t (*weight)(void *flow);
    /* After DENIED, INVALID, UNAVAILABLE: one line that says why, printable, without a secret or a
     * token; borrowed. */
    const char *(*why)(void *flow);
    void (*free)(void **flow_p); /* NULL is fine; wipes what is secret */
} provider_t;

extern const provider_t provider_oidc, provider_oauth, provider_saml;
