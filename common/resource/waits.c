#include "common/resource/waits.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/base/secret.h"
#include "common/bus/shares.h"

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

/* For the queue: what was admitted is not refused on its way. */
static const shares_bounds_t boundless = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};

struct waits {
    shares_t *queue; /* those whose request is not made yet */
    unsigned flying, calls;
    wait_t *first;
    size_t count, bytes, answer_bytes;
};

/* ---- a wait ---- */

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
    self->answered = false;
    self->pause_ms = 0;
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

bool wait_shorten(wait_t *self, int64_t now_ms)
{
    int64_t left = self->request.deadline_ms - now_ms - WAIT_ANSWER_MS;

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

/* ---- all of them ---- */

waits_t *waits_new(unsigned calls, unsigned calls_of_one)
{
    waits_t *self = memory_new(sizeof(*self), "the requests that wait");

    self->queue = memory_need(shares_new(NULL), "the queue of requests");
    self->calls = calls;
    shares_bound_held(self->queue, calls_of_one);
    return self;
}

void waits_destroy(waits_t **self_p)
{
    waits_t *self = *self_p;

    if (!self)
        return;
    shares_destroy(&self->queue);
    while (self->first) {
        wait_t *wait = self->first;

        waits_forget(self, &wait);
    }
    free(self);
    *self_p = NULL;
}

/* How much one owner has waiting. WAITS_ALL bounds the list. */
static void count_own(const waits_t *self, const char *owner, size_t *count, size_t *bytes)
{
    *count = *bytes = 0;
    for (const wait_t *wait = self->first; wait; wait = wait->next)
        if (!strcmp(wait->owner, owner)) {
            ++*count;
            *bytes += wait->counted;
        }
}

/* All that it holds while it waits. */
static size_t weight_of(const wait_t *wait)
{
    size_t weight = wait->bytes + wait->state_bytes + wait->fetch.body_bytes
                    + memory_json_weight(wait->question)
                    + (wait->fetch.url ? strlen(wait->fetch.url) : 0);

    return weight > WAITS_LEAST_BYTES ? weight : WAITS_LEAST_BYTES;
}

/* Is there room for that many bytes more, and where it is new, for another one? */
static int find_room(const waits_t *self, const wait_t *wait, size_t more)
{
    size_t one = !wait->admitted, count, bytes;

    if (self->count + one > WAITS_ALL || self->bytes + more > WAITS_ALL_BYTES)
        return -EAGAIN;
    count_own(self, wait->owner, &count, &bytes);
    return count + one > WAITS_OWN || bytes + more > WAITS_OWN_BYTES ? -EDQUOT : 0;
}

static void drop_answer(waits_t *self, wait_t *wait)
{
    self->answer_bytes -= wait->answer_counted;
    wait->answer_counted = 0;
}

int waits_admit(waits_t *self, wait_t *wait)
{
    size_t weight = weight_of(wait), more = weight > wait->counted ? weight - wait->counted : 0;
    int r = more ? find_room(self, wait, more) : 0;

    wait->until_ms = wait->pause_ms; /* the worker has given it back */
    drop_answer(self, wait);
    if (r)
        return r;
    wait->counted += more;
    self->bytes += more;
    if (wait->admitted)
        return 0;
    wait->admitted = true;
    wait->next = self->first;
    if (self->first)
        self->first->previous = wait;
    self->first = wait;
    self->count++;
    return 0;
}

void waits_queue(waits_t *self, wait_t *wait)
{
    int r = shares_put_held(self->queue, wait->owner, wait->owner, &boundless, 0, wait);

    INVARIANT(!r); /* no bounds apply, so only memory can be missing */
}

wait_t *waits_next(waits_t *self)
{
    bool has_room = self->flying < self->calls && self->answer_bytes < WAITS_ANSWERS_BYTES;
    wait_t *wait = has_room ? shares_take(self->queue) : NULL;

    self->flying += wait != NULL;
    return wait;
}

void waits_answered(waits_t *self, wait_t *wait)
{
    wait->answer_counted = wait->answer.body_bytes;
    self->answer_bytes += wait->answer_counted;
}

void waits_fetched(waits_t *self, const wait_t *wait)
{
    INVARIANT(self->flying > 0);
    self->flying--;
    shares_release(self->queue, wait->owner);
}

wait_t *waits_due(waits_t *self, int64_t now_ms)
{
    for (wait_t *wait = self->first; wait; wait = wait->next)
        if (wait->until_ms && wait->until_ms <= now_ms) {
            wait->until_ms = 0;
            return wait;
        }
    return NULL;
}

wait_t *waits_first(const waits_t *self)
{
    return self->first;
}

void waits_forget(waits_t *self, wait_t **wait_p)
{
    wait_t *wait = *wait_p;

    INVARIANT(wait->admitted && self->count);
    if (wait->previous)
        wait->previous->next = wait->next;
    else
        self->first = wait->next;
    if (wait->next)
        wait->next->previous = wait->previous;
    self->count--;
    self->bytes -= wait->counted;
    drop_answer(self, wait);
    wait_free(wait_p);
}

size_t waits_count(const waits_t *self)
{
    return self->count;
}
