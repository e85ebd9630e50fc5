/* OpenID Connect: the engine provider_oidc (provider.h), which signs in with any provider by its
 * issuer, and signing out at the provider. No I/O, no clock.
 *
 * OpenID Connect Core 1.0 and Discovery 1.0, code flow with PKCE (RFC 7636) and the issuer in the
 * answer (RFC 9207). Everything is https: plain providers do not exist here, and which addresses
 * may be reached says the way out. */
#pragma once

#include "services/identity/provider.h"

enum { OIDC_ID_MAX = 255 /* bytes of sub, sid and jti */ };

/* The URL that ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0): metadata
 * is the provider's document, for this issuer. id_token, state: NULL: none; a token that would make
 * the URL too long is left out. The caller frees it. NULL: the provider has no such page. */
char *oidc_end_session_url(const char *metadata, size_t metadata_len, const char *issuer,
                           const char *client_id, const char *id_token, const char *back_to,
                           const char *state);

/* Whose sessions a provider ends. Texts are "" where the token does not have them; sub or sid is
 * there. */
typedef struct oidc_logout {
    char sub[OIDC_ID_MAX + 1], sid[OIDC_ID_MAX + 1];
    char jti[OIDC_ID_MAX + 1]; /* a token counts once: to be remembered until it is too old */
    int64_t expires_s, too_old_s;
} oidc_logout_t;

/* After DONE of PROVIDER_ENDED: what the provider ends; the flow's. */
const oidc_logout_t *oidc_ended(void *flow);

/* Read a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6), signed with a key of the
 * provider's set. NULL: it is good, and *out is set; else what is wrong with it, one line. */
const char *oidc_logout_read(oidc_logout_t *out, const char *token, const char *keys,
                             size_t keys_len, const char *issuer, const char *client_id,
                             int64_t now_s);
