#include "services/fetch/task.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "services/fetch/certificate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct task {
    const task_world_t *world;
    signer_ask_t ask;
    signer_url_t url;
    certificate_t *certificate;
    char issuer_url[CERTIFICATE_ISSUER_URL_MAX + 1];
    unsigned issuers; /* asked for */
} task_t;

static void task_end(task_t *self, const signer_told_t *told)
{
    const task_world_t *world = self->world;

    if (told->outcome != SIGNER_KEY) {
        char url[4 * SIGNER_URL_MAX + 1], account[256];

        log_warn("no certificate of a signer from %s for account %s: %s",
                 log_quote(self->ask.url, strlen(self->ask.url), url, sizeof(url)),
                 log_quote(self->ask.account, strlen(self->ask.account), account, sizeof(account)),
                 told->why);
    }
    certificate_destroy(&self->certificate);
    free(self);
    world->tell(world->context, told);
}

static void task_fail(task_t *self, signer_outcome_t outcome, const char *why)
{
    signer_told_t told;

    signer_told_init(&told, self->ask.number, outcome, why);
    task_end(self, &told);
}

static void task_succeed(task_t *self)
{
    signer_told_t told;

    signer_told_init(&told, self->ask.number, SIGNER_KEY, "");
    if (certificate_tell(self->certificate, &told))
        task_end(self, &told);
    else
        task_fail(self, SIGNER_REFUSED, "its key is too large");
}

/* An answer that says nothing of a certificate: of the server's own trouble, or of what it has. */
static void task_fail_answer(task_t *self, const outbound_answer_t *answer)
{
    char why[SIGNER_WHY_MAX], quoted[SIGNER_WHY_MAX];
    bool is_final = answer->end == OUTBOUND_TOO_LARGE || answer->end == OUTBOUND_REDIRECTS
                    || (answer->end == OUTBOUND_ANSWERED && answer->status >= 300
                        && answer->status < 500 && answer->status != 429);

    if (answer->end == OUTBOUND_ANSWERED)
        snprintf(why, sizeof(why), "the answer has status %u", answer->status);
    else
        snprintf(why, sizeof(why), "%s: %s", outbound_end_name(answer->end),
                 log_quote(answer->why, strlen(answer->why), quoted, sizeof(quoted)));
    task_fail(self, is_final ? SIGNER_REFUSED : SIGNER_LATER, why);
}

static bool is_answered(const outbound_answer_t *answer)
{
    return answer->end == OUTBOUND_ANSWERED && answer->status == 200;
}

static void task_send(task_t *self, const char *url, bool may_be_plain, outbound_fn on_answer)
{
    const outbound_request_t request = {
        .owner = self->ask.account,
        .url = url,
        .may_be_plain = may_be_plain,
        .timeout_ms = TASK_TIMEOUT_MS,
        .max_bytes = CERTIFICATE_BYTES_MAX,
    };
    int r = outbound_send(self->world->outbound, &request, on_answer, self, NULL);

    if (r == -EINVAL)
        task_fail(self, SIGNER_REFUSED, "its URL is none that is asked for");
    else if (r)
        task_fail(self, SIGNER_LATER, "too many requests are under way");
}

static void on_issuer(void *context, const outbound_answer_t *answer);

/* Issuers of public authorities put their certificates where anybody may get them, without TLS:
 * what comes from there counts only where an authority of this machine has signed it. */
static void task_judge(task_t *self)
{
    const char *why;
    certificate_verdict_t verdict = certificate_judge(self->certificate, &self->url,
                                                      self->world->authorities, time(NULL), &why);

    if (verdict == CERTIFICATE_GOOD) {
        task_succeed(self);
    } else if (verdict == CERTIFICATE_LACKS_ISSUER && self->issuers < TASK_ISSUERS_MAX
               && certificate_issuer_url(self->certificate, self->issuer_url)) {
        self->issuers++;
        task_send(self, self->issuer_url, true, on_issuer);
    } else {
        task_fail(self, SIGNER_REFUSED, why);
    }
}

static void on_issuer(void *context, const outbound_answer_t *answer)
{
    task_t *self = context;

    if (!is_answered(answer))
        task_fail_answer(self, answer);
    else if (!certificate_add_issuer(self->certificate, answer->body, answer->body_bytes))
        task_fail(self, SIGNER_REFUSED, "what its issuer has for a certificate is none");
    else
        task_judge(self);
}

static void on_certificate(void *context, const outbound_answer_t *answer)
{
    task_t *self = context;
    const char *why;

    if (!is_answered(answer)) {
        task_fail_answer(self, answer);
        return;
    }
    self->certificate = certificate_read(answer->body, answer->body_bytes, &why);
    if (self->certificate)
        task_judge(self);
    else
        task_fail(self, SIGNER_REFUSED, why);
}

void task_start(const task_world_t *world, const signer_ask_t *ask)
{
    task_t *self = memory_new(sizeof(*self), "a certificate's request");

    self->world = world;
    self->ask = *ask;
    if (signer_url_read(ask->url, strlen(ask->url), &self->url))
        task_send(self, self->ask.url, false, on_certificate);
    else
        task_fail(self, SIGNER_REFUSED, "its URL is none of a signer");
}
