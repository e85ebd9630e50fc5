/* libcurl's transfers in a zloop: its sockets and its one timer (libcurl-multi(3), "multi_socket").
 * What a transfer is about stands in outbound.h. */
#pragma once

#include <curl/curl.h>
#include <czmq.h>

typedef struct multi multi_t;

/* A transfer has ended and is no longer part of the multi handle; easy is still the caller's. It
 * may start and stop others. */
typedef void (*multi_done_fn)(void *context, CURL *easy, CURLcode result);

/* Ignores SIGPIPE. 0 | fault. The caller owns *ret_multi, destroys it before the loop, and adds
 * nothing once it does. */
int multi_new(multi_t **ret_multi, zloop_t *loop, multi_done_fn on_done, void *context);
/* Every transfer must have ended, or been stopped. */
void multi_destroy(multi_t **self_p);

/* 0 | fault: nothing was started. Never ends the transfer before it returns. */
int multi_start(multi_t *self, CURL *easy);

/* Ends it at once without a word; on_done is not called for it. */
void multi_stop(multi_t *self, CURL *easy);
