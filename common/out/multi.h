/* Runs libcurl's transfers in a zloop: libcurl's sockets and its one timer (libcurl-multi(3),
 * "multi_socket"). The transfers themselves are set up in outbound.c. */
#pragma once

#include <curl/curl.h>
#include <czmq.h>

typedef struct multi multi_t;

/* Called when a transfer has ended and was removed from the multi handle. The caller of multi_start
 * still owns easy. The callback may start and stop other transfers. */
typedef void (*multi_done_fn)(void *context, CURL *easy, CURLcode result);

/* Also makes the process ignore SIGPIPE. 0 | fault. The caller owns *ret_multi, destroys it before
 * the loop, and starts no transfer while it is being destroyed. */
int multi_new(multi_t **ret_multi, zloop_t *loop, multi_done_fn on_done, void *context);
/* Every transfer must have ended or been stopped before. */
void multi_destroy(multi_t **self_p);

/* Start a transfer. 0 | fault: nothing was started. on_done is never called before this returns. */
int multi_start(multi_t *self, CURL *easy);

/* End a transfer at once; on_done is not called for it. */
void multi_stop(multi_t *self, CURL *easy);
