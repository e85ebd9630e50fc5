/* Keys of webhook signers for the modules of this worker: the rules are signers.c's; here are its
 * clock and its link to the helper, which has them fetched (edge_helper_signers.c). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#include "services/edge/control/signers.h"

/* As signers_look says. */
signers_state_t edge_signers_look(const signers_who_t *who, const char *url,
                                  signers_waiter_t *waiter, EVP_PKEY **ret_key);

/* From the helper: a signer_told_t. */
void edge_signers_take(const ngx_str_t *frame);

/* The helper is another one, and has no questions: all that was asked is over. */
void edge_signers_restart(void);
