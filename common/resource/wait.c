/* One request that waits, by itself: what it waits for, and what came of that. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/secret.h"
#include "common/resource/waits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { HEADERS_MAX = 16 };

static const char *const header_names[WAIT_HEADERS] = {
    [WAIT_RETRY_AFTER] = "retry-after",
    [WAIT_LINK] = "link",
    [WAIT_CACHE_CONTROL] = "cache-control",
    [WAIT_CONTENT_TYPE] = "content-type",
};

wait_t *wait_new(void)
{
    return memory_new(sizeof(wait_t), "a request that waits");
}

static void wipe_text(char **text_p)
{
    if (*text_p)
        secret_free(text_p, strlen(*text_p));
}

static void clear_fetch(outbound_request_t *fetch)
{
    char **headers = (char **)fetch->headers, *body = (char *)fetch->body,
         *url = (char *)fetch->url;

    for (char **header = headers; header && *header; header++)
        wipe_text(header);
    free(headers);
    secret_free(&body, fetch->body_bytes);
    wipe_text(&url);
    *fetch = (outbound_request_t){0};
}

static void clear_answer(wait_answer_t *answer)
{
    secret_free(&answer->body, answer->body_bytes);
    for (int i = 0; i < WAIT_HEADERS; i++)
        free(answer->headers[i]);
    json_decref(answer->said);
    *answer = (wait_answer_t){0};
}

void wait_free(wait_t **self_p)
{
    wait_t *self = *self_p;

    if (!self)
        return;
    if (self->state && self->free_state)
        self->free_state(&self->state);
    clear_fetch(&self->fetch);
    json_decref(self->question);
    clear_answer(&self->answer);
    if (self->begun)
        request_done(&self->request);
    json_decref(self->base);
    zframe_destroy(&self->identity);
    free(self);
    *self_p = NULL;
}

/* Forget what it waited for, and note for whose sake it waits now. */
static int begin_anew(wait_t *self, const char *owner)
{
    if (!owner || !*owner || strlen(owner) >= sizeof(self->owner))
        return -EINVAL;
    clear_fetch(&self->fetch);
    json_decref(take(self->question));
    self->verb[0] = '\0';
    clear_answer(&self->answer);
    self->answered = self->reached = false;
    self->pause_ms = 0;
    self->goes_on = false;
    self->least_ms = 0;
    snprintf(self->owner, sizeof(self->owner), "%s", owner);
    return 0;
}

static const char *const *copy_headers(const char *const *headers)
{
    size_t n = 0;
    char **copy;

    while (headers && headers[n])
        n++;
    if (n > HEADERS_MAX)
        n = HEADERS_MAX;
    copy = memory_need(calloc(n + 1, sizeof(*copy)), "headers of a request");
    for (size_t i = 0; i < n; i++)
        copy[i] = memory_copy(headers[i], "a header of a request");
    return (const char *const *)copy;
}

int wait_fetch(wait_t *self, const outbound_request_t *request)
{
    int r = request->url ? begin_anew(self, request->owner) : -EINVAL;
    char *body;

    if (r)
        return r;
    self->fetch = *request;
    self->fetch.owner = self->owner;
    self->fetch.reached = &self->reached;
    self->fetch.url = memory_copy(request->url, "the URL of a request");
    self->fetch.headers = copy_headers(request->headers);
    if (request->body) {
        body = memory_need(malloc(request->body_bytes + 1), "the body of a request");
        memcpy(body, request->body, request->body_bytes);
        self->fetch.body = body;
    }
    return 0;
}

int wait_ask(wait_t *self, const char *owner, const char *verb, json_t *body, int64_t until_ms)
{
    int r = body && *verb && strlen(verb) < sizeof(self->verb) ? begin_anew(self, owner) : -EINVAL;

    if (r) {
        json_decref(body);
        return r;
    }
    snprintf(self->verb, sizeof(self->verb), "%s", verb);
    self->question = body;
    self->ask_until_ms = until_ms;
    return 0;
}

int wait_pause(wait_t *self, const char *owner, int64_t until_ms)
{
    int r = begin_anew(self, owner);

    self->pause_ms = until_ms;
    return r;
}

int wait_go_on(wait_t *self, const char *owner, int64_t until_ms)
{
    int r = wait_pause(self, owner, until_ms);

    self->goes_on = !r;
    return r;
}

int64_t wait_left_ms(const wait_t *self, int64_t now_ms)
{
    return self->request.deadline_ms - now_ms - WAIT_ANSWER_MS;
}

bool wait_shorten(wait_t *self, int64_t now_ms)
{
    int64_t left = wait_left_ms(self, now_ms);

    if (left <= 0 || left < (int64_t)self->least_ms)
        return false;
    if (left < (int64_t)self->fetch.timeout_ms)
        self->fetch.timeout_ms = (unsigned)left;
    return true;
}

void wait_take_answer(wait_t *self, const outbound_answer_t *answer,
                      const char *(*header)(const outbound_answer_t *answer, const char *name))
{
    char *body = NULL;

    clear_answer(&self->answer);
    self->answered = true;
    if (answer->body_bytes && !(body = malloc(answer->body_bytes + 1))) {
        self->answer.end = OUTBOUND_TOO_LARGE;
        return;
    }
    self->answer.end = answer->end;
    self->answer.status = answer->status;
    snprintf(self->answer.why, sizeof(self->answer.why), "%s", answer->why ? answer->why : "");
    if (body) {
        memcpy(body, answer->body, answer->body_bytes);
        body[answer->body_bytes] = '\0';
        self->answer.body = body;
        self->answer.body_bytes = answer->body_bytes;
    }
    for (int i = 0; answer->headers && i < WAIT_HEADERS; i++) {
        const char *value = header(answer, header_names[i]);

        if (value)
            self->answer.headers[i] = memory_copy(value, "a header of an answer");
    }
}

void wait_take_said(wait_t *self, int code, const char *why, json_t *body)
{
    clear_answer(&self->answer);
    self->answered = true;
    self->answer.code = code;
    self->answer.said = body;
    snprintf(self->answer.why, sizeof(self->answer.why), "%s", why ? why : "");
}

void wait_take_end(wait_t *self, outbound_end_t end, const char *why)
{
    clear_answer(&self->answer);
    self->answered = true;
    self->answer.end = end;
    snprintf(self->answer.why, sizeof(self->answer.why), "%s", why);
}
