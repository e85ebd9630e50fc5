/* What the files of the oidc engine share. */
#pragma once

#include "services/identity/oidc.h"
#include "services/identity/provider_cache.h"
#include "services/identity/provider_text.h"

#include <openssl/evp.h>

enum {
    OIDC_URL_MAX = 2048,           /* bytes of an endpoint */
    OIDC_LOCATION_MAX = 8 << 10,   /* of a URL that a browser is sent to */
    OIDC_METADATA_MAX = 128 << 10, /* of answers */
    OIDC_KEYS_MAX = 256 << 10,
    OIDC_TOKENS_MAX = 128 << 10,
    OIDC_USERINFO_MAX = 256 << 10,
    OIDC_JSON_DEPTH = 16, /* objects and lists inside each other */
    OIDC_JSON_MEMORY = 2 << 20,
    OIDC_KEY_COUNT = 100,
    OIDC_KEY_TRIES = 8, /* keys that are tried for one signature */
    OIDC_KID_MAX = 255,
    OIDC_ID_TOKEN_MAX = 32 << 10,
    OIDC_TOKEN_MAX = 8 << 10, /* of access and refresh tokens, those that a request brings too */
    OIDC_CODE_MAX = 4 << 10,
    OIDC_EMAIL_MAX = 254,
    OIDC_GROUPS = 1000,
    OIDC_GROUPS_BYTES = 8 << 10, /* of all their names: each session keeps them */
    OIDC_AUDIENCES = 32,
    OIDC_SKEW_S = 60, /* between the provider's clock and ours */
    OIDC_TIMEOUT_MS = 10000,
    OIDC_LEAVE_MS = 3000,    /* of a sign-out, which is over here by then */
    OIDC_LOGOUT_AGE_S = 600, /* of a logout token, since it was issued */
    OIDC_WHY_MAX = 256
};

/* ---- oidc_json.c: bytes from outside ---- */

/* The JSON object in text: no member twice, no NUL, nothing behind it, depth and memory bounded.
 * The caller frees it. NULL: it is none. */
json_t *oidc_json(const char *text, size_t len);

/* A member that is a text of 1 to max bytes without control characters. NULL: it is not there, or
 * anything else. Borrowed. */
const char *oidc_text(const json_t *object, const char *name, size_t max);

/* Seconds since 1970 of a NumericDate (RFC 7519 2), whole or not, rounded down. False: it is none,
 * negative, or beyond the year 9999. */
bool oidc_time(const json_t *value, int64_t *ret_s);

/* Is the text in a list that is a member? */
bool oidc_lists(const json_t *object, const char *name, const char *text);

/* Decode base64url without padding (RFC 7515 2), and in one way only: bits that no byte needs are
 * 0. The caller frees it; a NUL stands behind *ret_len bytes. NULL: it is none. */
unsigned char *oidc_base64url(const char *text, size_t len, size_t *ret_len);

/* Is it an https URL with a host, without user and fragment, of printable ASCII? */
bool oidc_is_url(const char *text);

/* Only bytes from ' ' + 1 to '~', and at least one: what tokens and codes are made of, and what may
 * stand in a header. */
bool oidc_is_visible(const char *text);

/* Do the texts equal? The time that takes says nothing about where they differ. */
bool oidc_same(const char *a, const char *b);

/* ---- oidc_metadata.c: discovery ---- */

/* Metadata of a provider: copies of what a sign-in needs. The document itself is not kept, because
 * a hostile one is large, and a flow lasts as long as its provider takes to answer. */
typedef struct oidc_metadata {
    char *authorization, *token, *keys; /* URLs */
    char *userinfo, *end_session;       /* NULL: the provider has none */
    bool says_issuer;                   /* RFC 9207 */
    bool takes_basic, takes_post;       /* the client's secret, at the token endpoint */
} oidc_metadata_t;

/* Read a document, which must be this issuer's. NULL: it is good, and the caller calls _done; else
 * which rule it breaks. */
const char *oidc_metadata_read(oidc_metadata_t *self, const char *text, size_t len,
                               const char *issuer);
void oidc_metadata_done(oidc_metadata_t *self);

/* ---- oidc_keys.c: key sets and signatures (RFC 7517, 7518, 8037) ---- */

typedef struct oidc_algorithm {
    const char *name;      /* alg */
    const char *kty, *crv; /* of keys that can verify it; crv NULL: any */
    const char *digest;    /* also of at_hash */
    bool is_pss;
    size_t signature; /* bytes; 0: as long as the key's modulus */
} oidc_algorithm_t;

/* NULL: no such algorithm, or none that is let in. */
const oidc_algorithm_t *oidc_algorithm_find(const char *name);

typedef struct oidc_keys oidc_keys_t;

/* Read a key set. Keys that are of no use here are skipped; a set without any is refused. NULL: it
 * is good, and the caller frees it; else which rule it breaks. */
const char *oidc_keys_read(oidc_keys_t **ret_keys, const char *text, size_t len);
void oidc_keys_free(oidc_keys_t **self_p);

typedef enum oidc_verdict {
    OIDC_VERIFIED,
    OIDC_NO_KEY, /* no key of the set fits key id and algorithm */
    OIDC_FORGED
} oidc_verdict_t;

/* Was data signed by a key of the set? kid NULL: the token names none, and every key that fits the
 * algorithm is tried. */
oidc_verdict_t oidc_keys_verify(const oidc_keys_t *self, const oidc_algorithm_t *algorithm,
                                const char *kid, const char *data, size_t len,
                                const unsigned char *signature, size_t signature_len);

/* ---- oidc_token.c: JSON Web Tokens (RFC 7515, 7519) ---- */

typedef struct oidc_token {
    json_t *header, *claims; /* not to be believed before it is verified */
    const oidc_algorithm_t *algorithm;
    const char *kid; /* NULL: none */
    const char *text;
    size_t signed_len; /* bytes of text that are signed */
    unsigned char *signature;
    size_t signature_len;
} oidc_token_t;

/* Take a compact token apart; type is a media type that its header may name beside JWT (RFC 7519
 * 5.1), with "application/" before it or without (RFC 7515 4.1.9), or NULL. text must stay. NULL:
 * it has the form, and the caller calls _done; else which rule it breaks. */
const char *oidc_token_read(oidc_token_t *self, const char *text, const char *type);
/* Does the header of one that was read name that media type? */
bool oidc_token_is(const oidc_token_t *self, const char *type);
void oidc_token_done(oidc_token_t *self);

/* Was it signed by a key of the set? */
oidc_verdict_t oidc_token_verify(const oidc_token_t *self, const oidc_keys_t *keys);

/* What an ID token must say. */
typedef struct oidc_expected {
    const char *issuer, *client_id;
    const char *nonce;        /* NULL: not known any more, as at a refresh */
    const char *sub;          /* NULL: anybody */
    const char *access_token; /* that at_hash is of; NULL: none */
    int64_t max_age_s;        /* that was asked for; below 0: none was */
    int64_t now_s;
} oidc_expected_t;

/* OpenID Connect Core 3.1.3.7 and 12.2, but for the signature. NULL: all is well; else what is
 * not. */
const char *oidc_token_fault(const oidc_token_t *self, const oidc_expected_t *expected);

/* iss, aud, iat, and the times of any token of the provider, as above. */
const char *oidc_token_fault_common(const oidc_token_t *self, const oidc_expected_t *expected);

/* ---- oidc_request.c: what is sent ---- */

/* The scopes of a sign-in, with a space between: openid, and the route's, or email and profile. The
 * caller frees it. NULL: one of the route's is no scope (RFC 6749 3.3). */
char *oidc_scopes(const json_t *own);

/* A challenge of PKCE, S256: 43 characters. */
void oidc_challenge(const char *verifier, char out[44]);

/* Value of the Authorization header of a client (RFC 6749 2.3.1), "Authorization: " before it. The
 * caller wipes and frees it. */
char *oidc_basic(const char *client_id, const char *client_secret);

/* ---- oidc_person.c: who it is ---- */

/* Set the person's name, address and groups by the claims of the ID token and of userinfo; either
 * may be NULL. groups: name of the claim with the groups. */
void oidc_person_set(person_t *self, const json_t *claims, const json_t *userinfo,
                     const char *groups);

/* ---- oidc_logout.c: signing out ---- */

/* As oidc_end_session_url, by metadata that were read. */
char *oidc_leave_url(const oidc_metadata_t *metadata, const char *client_id, const char *id_token,
                     const char *back_to, const char *state);

/* What a logout token says, but for its signature. NULL: all is well, and *out is set; else what is
 * not. */
const char *oidc_logout_fault(const oidc_token_t *token, const oidc_expected_t *expected,
                              oidc_logout_t *out);

/* ---- oidc_bearer.c: tokens that requests bring ---- */

/* What an access token must say, but for its signature (RFC 9068 4, RFC 7519 4.1): audiences is the
 * list of those that are meant here. NULL: all is well, and *ret_expires_s is its exp; else what is
 * not. */
const char *oidc_bearer_fault(const oidc_token_t *token, const char *issuer,
                              const json_t *audiences, int64_t now_s, int64_t *ret_expires_s);

/* ---- oidc.c and oidc_flow.c: the flow ---- */

typedef enum oidc_stage {
    OIDC_STAGE_METADATA,
    OIDC_STAGE_TOKENS,
    OIDC_STAGE_KEYS,
    OIDC_STAGE_USERINFO
} oidc_stage_t;

typedef struct oidc_flow {
    provider_operation_t operation;
    oidc_stage_t stage; /* whose answer is awaited */
    bool has_begun;
    char why[OIDC_WHY_MAX];
    const char *fault; /* of what the flow was begun with; NULL: none */
    int64_t now_s;
    bool is_forced;
    provider_cache_t *cache;
    char account[64]; /* whose route it is; "": nobody's */

    /* What the flow was begun with; copies, NULL where there is none. */
    char *issuer, *client_id, *client_secret, *redirect_uri, *state, *nonce, *verifier, *scopes;
    char *groups_claim; /* the same; NULL: groups */
    json_t *params;
    json_t *audiences; /* of a token that a request brings: those that are meant here */
    person_t known;

    oidc_metadata_t metadata;
    char *old_text; /* of the document that is being fetched anew, as far as it may serve if that
                       fails; NULL: there is none */
    size_t old_len;
    char *access_token, *refresh_token, *id_token;
    int64_t access_expires_s;
    bool has_new_tokens; /* of an answer of this flow */
    oidc_token_t token;
    bool is_verified;       /* token */
    bool were_keys_fetched; /* by this flow, or they could not be: it asks for them no more */
    bool are_keys_new;      /* what token is verified with was fetched for this flow */
    oidc_verdict_t doubted; /* what those said of it that newer ones are fetched in place of;
                               VERIFIED: none has said anything */
    bool is_out_of_turn;    /* newer keys might help, but are not to be fetched now */
    unsigned key_waits;     /* for keys that another flow fetches */
    uint64_t key_fetch;     /* number in the cache of the fetch that this one takes part in; 0: it
                               takes part in none */
    json_t *userinfo;
    oidc_logout_t ended;     /* the same: not to be believed before token is verified */
    int64_t token_expires_s; /* the same, of a token that a request brings */
    bool is_fault_of_token;  /* fault says what is wrong with it, not with the module */

    /* The request, or the URL of begin. */
    provider_text_t url, body;
    char *headers[FETCH_HEADERS];
    size_t max_bytes;
} oidc_flow_t;

/* End the flow with this step; why is made printable. Returns step. */
provider_step_t oidc_fail(oidc_flow_t *self, provider_step_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Judge an answer by how it ended and its status; what: whose answer. PROVIDER_DONE: 200 or 4xx,
 * and it is to be read. */
provider_step_t oidc_judge(oidc_flow_t *self, const char *what, const fetched_t *answer);

/* oidc_logout.c: take the token that the flow is about, and judge what can be seen of it without
 * its provider: nobody is asked about what is none. NULL: it may be good; else what is wrong. */
const char *oidc_begin_ended(oidc_flow_t *self);
/* oidc_bearer.c: the same of a token that a request brings. */
const char *oidc_begin_bearer(oidc_flow_t *self);

/* oidc_callback.c: judge what the browser brought, and set *ret_code. PROVIDER_DONE, or the
 * outcome. */
provider_step_t oidc_read_callback(oidc_flow_t *self, const char **ret_code);
/* Read the answer to a token request. PROVIDER_DONE, or the outcome. */
provider_step_t oidc_read_tokens(oidc_flow_t *self, const fetched_t *answer);
/* Read the answer of userinfo. PROVIDER_DONE, or the outcome. */
provider_step_t oidc_read_userinfo(oidc_flow_t *self, const fetched_t *answer);

/* oidc_request.c: set the flow's request, or the URL of begin. False: it is too long. */
bool oidc_ask_metadata(oidc_flow_t *self);
bool oidc_ask_authorize(oidc_flow_t *self);
bool oidc_ask_tokens(oidc_flow_t *self, const char *code);
bool oidc_ask_keys(oidc_flow_t *self);
bool oidc_ask_userinfo(oidc_flow_t *self);

/* Replace a text by a copy; the old one is wiped. NULL: none. */
void oidc_set(char **text_p, const char *value);

/* oidc_flow.c: start, weight and free of provider_t. */
int oidc_flow_start(void **ret_flow, int operation, const provider_ask_t *ask);
size_t oidc_flow_weight(void *flow);
void oidc_flow_free(void **flow_p);

/* oidc_person.c: person and tokens of provider_t. */
void oidc_flow_person(void *flow, person_t *out);
bool oidc_flow_tokens(void *flow, person_t *out);
