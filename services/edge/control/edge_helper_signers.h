/* In the helper: the program that fetches certificates of webhook signers (services/fetch). */
#pragma once

#include "services/edge/control/edge_link.h"

/* Pass a question of the worker's on, to a program that is started where there is none. What cannot
 * be asked is answered so. */
void edge_helper_signers_ask(link_t *worker, const ngx_str_t *frame);

/* Its end of the link to the program; -1: there is none. */
int edge_helper_signers_fd(void);

/* For how many milliseconds the helper may wait for something else: -1, where nothing is asked. */
int edge_helper_signers_patience(void);

/* End a program that answers nothing; the next question starts another. NGX_OK | NGX_ERROR: the
 * worker is gone. */
ngx_int_t edge_helper_signers_watch(link_t *worker);

/* Pass on what it answers. NGX_OK, also when it has ended | NGX_ERROR: the worker is gone. */
ngx_int_t edge_helper_signers_take(link_t *worker);
