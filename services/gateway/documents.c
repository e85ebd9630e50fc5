#include "services/gateway/documents.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/bus/work.h"
#include "common/codec/pack.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

/* A body on its way through the thread. The loop makes and frees it; in between the queues carry
 * its address, so that only one thread at a time has it. */
typedef struct job {
    struct job *next, *previous;
    parsed_t parsed;
    body_t body;
    bool is_module;
    json_t *rest;
} job_t;

/* What the queues carry of a job. */
typedef struct ticket {
    job_t *job;
} ticket_t;

struct documents {
    zloop_t *loop;
    on_parsed_fn on_parsed;
    void *context;
    work_t *waiting, *done;
    zactor_t *thread;
    job_t *first; /* every job that the loop has made and not freed */
    size_t count;
};

/* Bodies are bounded by the connections that bring them, one each. */
static const shares_bounds_t boundless = {
    .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = SIZE_MAX, .all_bytes = SIZE_MAX};

/* ---- the thread ---- */

static void job_run(job_t *job)
{
    json_t *document = NULL;

    job->parsed.code =
        document_parse(job->body.bytes, job->body.len, job->is_module, &document, job->parsed.msg);
    body_done(&job->body);
    if (!job->parsed.code) {
        json_object_set_new(job->rest, "document", document);
        job->parsed.code = pack_json(&job->parsed.packed, job->rest);
    }
    /* here, because that takes time as well: a body has up to a million values */
    json_decref(job->rest);
    job->rest = NULL;
}

static zmsg_t *job_address(job_t *job)
{
    const ticket_t ticket = {job};
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, &ticket, sizeof(ticket));
    return msg;
}

static job_t *job_at(zmsg_t *msg)
{
    ticket_t ticket;

    INVARIANT(zframe_size(zmsg_first(msg)) == sizeof(ticket));
    memcpy(&ticket, zframe_data(zmsg_first(msg)), sizeof(ticket));
    return ticket.job;
}

static void run_jobs(zsock_t *pipe, void *context)
{
    documents_t *self = context;
    zmsg_t *msg;

    zsock_signal(pipe, 0);
    while ((msg = work_take(self->waiting))) {
        job_run(job_at(msg));
        work_put_wait(self->done, &msg);
        zmsg_destroy(&msg);
    }
    OPENSSL_thread_stop();
}

/* ---- the loop ---- */

static void job_free(documents_t *self, job_t *job)
{
    if (job->previous)
        job->previous->next = job->next;
    else
        self->first = job->next;
    if (job->next)
        job->next->previous = job->previous;
    INVARIANT(self->count > 0);
    self->count--;
    body_done(&job->body);
    json_decref(job->rest);
    msgpack_sbuffer_destroy(&job->parsed.packed);
    free(job);
}

static int on_done(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    documents_t *self = context;
    zmsg_t *msg;

    (void)loop;
    (void)item;
    while ((msg = work_poll(self->done))) {
        job_t *job = job_at(msg);

        zmsg_destroy(&msg);
        self->on_parsed(self->context, &job->parsed);
        job_free(self, job);
    }
    return 0;
}

int documents_new(documents_t **ret_self, zloop_t *loop, on_parsed_fn on_parsed, void *context)
{
    documents_t *self = memory_new(sizeof(*self), "the parser of bodies");
    zmq_pollitem_t done = {.events = ZMQ_POLLIN};

    *ret_self = self;
    self->loop = loop;
    self->on_parsed = on_parsed;
    self->context = context;
    self->waiting = work_new(SIZE_MAX, false);
    self->done = work_new(SIZE_MAX, true);
    if (!self->waiting || !self->done)
        return fault(-ENOMEM, "make the queues of bodies");
    self->thread = zactor_new(run_jobs, self);
    if (!self->thread)
        return fault(-ENOMEM, "start the parser of bodies");
    done.fd = work_fd(self->done);
    zloop_poller(loop, &done, on_done, self);
    zloop_poller_set_tolerant(loop, &done);
    return 0;
}

void documents_destroy(documents_t **self_p)
{
    documents_t *self = *self_p;

    if (!self)
        return;
    if (self->waiting)
        work_stop(self->waiting);
    if (self->done)
        work_stop(self->done);
    zactor_destroy(&self->thread);
    while (self->first)
        job_free(self, self->first);
    work_destroy(&self->waiting);
    work_destroy(&self->done);
    free(self);
    *self_p = NULL;
}

void documents_put(documents_t *self, const char *account, const char *name, body_t *body,
                   bool is_module, json_t **rest)
{
    job_t *job = memory_new(sizeof(*job), "a body to parse");
    zmsg_t *msg = job_address(job);

    INVARIANT(strlen(name) < sizeof(job->parsed.name));
    memcpy(job->parsed.name, name, strlen(name));
    job->body = *body;
    *body = (body_t){0};
    job->rest = take(*rest);
    job->is_module = is_module;
    msgpack_sbuffer_init(&job->parsed.packed);
    job->next = self->first;
    if (self->first)
        self->first->previous = job;
    self->first = job;
    self->count++;
    /* no bounds apply, so only memory can be missing: as in CZMQ */
    INVARIANT(!work_put_of(self->waiting, account, &boundless, job->body.len, &msg));
}

size_t documents_waiting(const documents_t *self)
{
    return self ? self->count : 0;
}
