#include "services/edge/control/edge_signers.h"
#include "services/edge/control/edge_life.h"

static signers_t  *signers;   /* made when a key is first asked for */


static bool
send_question(void *unused, const signer_ask_t *ask)
{
    ngx_str_t  frame;

    (void) unused;
    frame.data = (u_char *) ask;
    frame.len = sizeof(*ask);
    return edge_life_send(LINK_SIGNER, &frame, 1) == NGX_OK;
}


signers_state_t
edge_signers_look(const signers_who_t *who, const char *url, signers_waiter_t *waiter,
    EVP_PKEY **ret_key)
{
    static const signers_ports_t  ports = { send_question };

    if (signers == NULL) {
        signers = signers_new(&ports, NULL);
    }
    if (signers == NULL) {
        return SIGNERS_LATER;
    }
    return signers_look(signers, who, url, ngx_current_msec, ngx_time(), waiter, ret_key);
}


void
edge_signers_take(const ngx_str_t *frame)
{
    signer_told_t  told;

    if (signers && signer_told_read(&told, frame->data, frame->len)) {
        signers_take(signers, &told, ngx_current_msec);
    }
}


void
edge_signers_restart(void)
{
    signer_told_t  told;

    if (signers) {
        signer_told_init(&told, 0, SIGNER_LATER, "");
        signers_take(signers, &told, ngx_current_msec);
    }
}
