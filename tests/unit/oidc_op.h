/* A small OpenID provider for unit tests: its keys are made when it is, its documents are JSON that
 * a test changes before it signs somebody in. */
#pragma once

#include "services/identity/oidc.h"
#include "services/identity/provider.h"
#include "services/identity/provider_cache.h"

#include <openssl/evp.h>

#define OP_ISSUER   "https://op.example.test"
#define OP_CLIENT   "client"
#define OP_NONCE    "nonce-nonce-nonce-nonce-nonce-nonce-nonce-1"
#define OP_STATE    "rt_1.state-state-state-stat"
#define OP_VERIFIER "verifier-verifier-verifier-verifier-verifie"

enum { OP_NOW_S = 1800000000, OP_WHY_SIZE = 256 };

typedef enum op_place { OP_METADATA, OP_TOKENS, OP_KEYS, OP_USERINFO, OP_PLACES } op_place_t;

typedef struct op {
    EVP_PKEY *key;
    const char *alg; /* that tokens are signed with */
    json_t *config, *params, *header, *claims;
    /* Answers by place; NULL: the place cannot be reached. tokens gets id_token, unless it has
     * one or gives_id_token is false. */
    json_t *documents[OP_PLACES];
    bool gives_id_token;
    const char *bodies[OP_PLACES]; /* in place of the documents */
    unsigned status[OP_PLACES], calls[OP_PLACES];
    const char *content_type, *cache_control;
    char *body;          /* of the last token request */
    char *authorization; /* header of the last token request; "": none */
    provider_cache_t *cache;
    int64_t now_s;
    bool force;
    person_t known; /* of a refresh; borrowed texts */
    const char *refresh_token, *access_token;
    char why[OP_WHY_SIZE], location[16 << 10]; /* location "": none */
    person_t tokens;                           /* that the flow hands out, however it ended */
    bool gave_tokens;
    size_t heaviest; /* that a flow was between two steps */
    oidc_logout_t ended;
} op_t;

/* A provider that signs with a new key for this algorithm. */
op_t *op_new(const char *alg);
void op_destroy(op_t **self_p);

/* A new key for an algorithm, and its public half as a JWK. */
EVP_PKEY *op_key(const char *alg);
json_t *op_jwk(EVP_PKEY *key, const char *alg, const char *kid);

/* Sign with any key; alg says how, the header may say otherwise. The caller frees it. */
char *op_sign(EVP_PKEY *key, const char *alg, const json_t *header, const json_t *claims);
/* The same of bytes that need not be JSON. */
char *op_sign_bytes(EVP_PKEY *key, const char *alg, const char *header, const char *claims);

/* Begin an operation, which provider_oidc.free ends; other flows may be between its steps. */
void *op_start(op_t *self, provider_operation_t operation);
/* Its next step: want is empty at first, and what it asked for is answered from then on. */
provider_step_t op_step(op_t *self, void *flow, fetch_t *want);

/* Run an operation to its end; who may be NULL. */
provider_step_t op_run(op_t *self, provider_operation_t operation, person_t *who);

/* Sign in, which must fail with this step and these words in its reason. */
void op_denies(op_t *self, provider_step_t step, const char *why);

/* Set a member of a document, header or claims; value is taken, NULL removes it. */
void op_set(json_t *object, const char *name, json_t *value);
