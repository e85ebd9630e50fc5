/* A worker: a thread with a database connection of its own, which takes requests and runs their
 * verbs. */
#include "common/resource/service_internal.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/log_bound.h"
#include "common/bus/deadline.h"
#include "common/resource/retry.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum {
    LATE_MS = 2000,     /* for what the answer to a request that waited says, whenever it came */
    SLOW_US = 250000,   /* a read that took longer is logged */
    GONE_LINES = 60,    /* a minute, of an account and verb: of sessions and tokens that are none */
    SIGN_IN_LINES = 600 /* and of sign-ins that lead to nothing */
};

crud_t service_crud(const worker_args_t *args)
{
    return (crud_t){
        .key = args->key,
        .base_url = config_str(args->config, "api-url"),
        .service = args->row->name,
        .object_limit = config_int(args->config, "object-limit"),
        .config_limit = config_int(args->config, "config-limit"),
        .config_log = args->row->has_config_log,
    };
}

static int run_verb(crud_t *crud, const worker_args_t *args, const request_t *request,
                    reply_t *reply)
{
    const char *dot = strchr(request->verb, '.');
    char name[64];
    const kind_t *kind;

    for (const verb_t *verb = args->spec->verbs; verb && verb->name; verb++)
        if (!strcmp(verb->name, request->verb)) {
            crud->request = request;
            return verb->run(crud, request, reply);
        }
    snprintf(name, sizeof(name), "%.*s", dot ? (int)(dot - request->verb) : 0, request->verb);
    kind = kind_find(name);
    if (!dot || !kind || strcmp(kind->service, args->row->name) || !*request->account)
        return ERR_UNKNOWN_VERB;
    return crud_call(crud, kind, dot + 1, request, reply);
}

/* Run until it gives an answer or the deadline passes: a verb is safe to run again, because what it
 * did is recorded under the request id in its own transaction. */
static int run_with_retry(crud_t *crud, const worker_args_t *args, const request_t *request,
                          reply_t *reply)
{
    unsigned again = 0;

    for (int tries = 0;; tries++) {
        int r = pg_ready(crud->pg);

        if (!r)
            r = run_verb(crud, args, request, reply);
        /* read-only: one retry with a new session, which may reach another server; no more, so that
         * no worker is blocked */
        if (r == PG_TIMEOUT || r == PG_FULL || (r == PG_DOWN && tries > 0 && pg_is_read_only())) {
            log_warn("req=%s %s", request->id, fault_text());
            return ERR_MAINTENANCE;
        }
        if (r != PG_DOWN && r != PG_AGAIN)
            return r;
        if (bus_mono_ms() + RETRY_MS >= request->deadline_ms)
            return ERR_MAINTENANCE;
        reply_done(reply);
        memset(reply, 0, sizeof(*reply));
        usleep(r == PG_DOWN ? RETRY_MS * 1000 : retry_pause_us(again++, randombytes_random()));
    }
}

/* Did somebody else than the caller refuse, who cannot be asked again for the reason? Of a state
 * that is not good only where the reason was noted. */
static bool is_reason_logged(int r, const reply_t *reply)
{
    return r == ERR_SIGN_IN_DENIED || r == ERR_SIGN_IN_PROVIDER || r == ERR_SIGN_IN_UNAVAILABLE
           || ((r == ERR_SIGN_IN_STATE || r == ERR_SESSION_GONE) && *reply->problem.msg);
}

/* Of lines that anybody can cause who reaches a route. */
static log_bound_t of_gone = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = GONE_LINES};
static log_bound_t of_sign_ins = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = SIGN_IN_LINES};

/* The bound of lines with that outcome; NULL: none. */
static log_bound_t *bound_of(int r)
{
    switch (r) {
    case ERR_SESSION_GONE:
    case ERR_SESSION_STALE:
        return &of_gone;
    case ERR_SIGN_IN_STATE:
    case ERR_SIGN_IN_CODE:
    case ERR_SIGN_IN_DENIED:
    case ERR_SIGN_IN_PROVIDER:
    case ERR_SIGN_IN_UNAVAILABLE:
        return &of_sign_ins;
    default:
        return NULL;
    }
}

/* Say how many lines were left out, of each kind. */
static void log_left_out(log_bound_t *bound)
{
    char kind[3 * LOG_BOUND_KIND_SIZE];
    log_left_out_t out;

    while (log_bound_left_out(bound, bus_mono_ms(), &out))
        log_info("left out %" PRIu64 " lines of refused sessions, tokens or sign-ins, of "
                 "account, verb and outcome \"%s\": there are %u a minute",
                 out.lines, log_quote(out.kind, strlen(out.kind), kind, sizeof(kind)), bound->most);
}

/* Whoever makes up tokens, cookies, or answers of a provider causes a refusal each: their lines are
 * bounded. */
static bool is_left_out(int r, const request_t *request)
{
    char kind[sizeof(request->account) + sizeof(request->verb) + 64];
    log_bound_t *bound = bound_of(r);

    if (!bound)
        return false;
    snprintf(kind, sizeof(kind), "%s %s %s", request->account, request->verb, outcome_name(r));
    return !log_bound_admits(bound, kind, bus_mono_ms());
}

/* Log changes, refusals and slow requests. Successful reads have a line in the gateway's log. */
static void log_request(const crud_t *crud, const request_t *request, int r, int64_t us,
                        const reply_t *reply)
{
    char verb[140], id[140], why[600];

    log_left_out(&of_gone);
    log_left_out(&of_sign_ins);
    if ((r == 0 && !crud->changes && us < SLOW_US) || is_left_out(r, request))
        return;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    if (r < 0)
        log_error("verb=%s req=%s r=FAULT us=%" PRId64 " fault=\"%s\"", verb, id, us, fault_text());
    else if (is_reason_logged(r, reply))
        log_info("verb=%s req=%s r=%s us=%" PRId64 " why=\"%s\"", verb, id, outcome_name(r), us,
                 log_quote(reply->problem.msg, strlen(reply->problem.msg), why, sizeof(why)));
    else
        log_info("verb=%s req=%s r=%s us=%" PRId64 " revision=%" PRId64, verb, id, outcome_name(r),
                 us, reply->revision);
}

/* Take the base URL of uris out of the body: the gateway may send one, because clients reach the
 * API under several names. Removed, since it is not part of the request's fingerprint. NULL: use
 * the setting. */
static json_t *take_base(request_t *request)
{
    json_t *base = json_incref(json_object_get(request->body, "base"));

    json_object_del(request->body, "base");
    if (json_is_string(base))
        return base;
    json_decref(base);
    return NULL;
}

/* Reply to a request that cannot be decoded, so that its sender need not wait for the deadline.
 * NULL: without an id there is nobody to reply to. */
static zmsg_t *refuse_unreadable(const request_t *request)
{
    const reply_t reply = {.problem = {.code = ERR_INTERNAL}};
    char id[140];

    if (!*request->id)
        return NULL;
    log_error("req=%s a request cannot be read",
              log_quote(request->id, strlen(request->id), id, sizeof(id)));
    return reply_encode(request->id, &reply);
}

/* Has the request's deadline passed, so that nobody waits for a reply? */
static bool is_expired(const request_t *request)
{
    int64_t now = bus_mono_ms();
    char verb[140], id[140];

    if (request->deadline_ms > now)
        return false;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    log_warn("verb=%s req=%s is dropped: whoever sent it gave up %" PRId64 " ms ago", verb, id,
             now - request->deadline_ms);
    return true;
}

/* The reply of a verb that ended with r, without whom it goes to. */
static zmsg_t *encode_reply(crud_t *crud, const request_t *request, int r, reply_t *reply)
{
    if (r)
        reply->revision = 0;
    if (r > 0 && r != ERR_MAINTENANCE)
        crud->revokes = false; /* refused; any other failure may have been committed */
    if (r < 0)
        r = ERR_INTERNAL;
    if (r) {
        reply_drop_body(reply);
        if (!reply->problem.code)
            reply->problem.code = r;
    } else {
        problem_done(&reply->problem);
        reply->problem.code = 0;
    }
    return reply_encode(request->id, reply);
}

/* When its statements must end. What a provider has answered, such as a token that takes another's
 * place, is kept even where whoever asked has given up. */
static int64_t until(const wait_t *job)
{
    int64_t late = job->answered ? bus_mono_ms() + LATE_MS : 0;

    return late > job->request.deadline_ms ? late : job->request.deadline_ms;
}

/* Run the request of a job. NULL: there is no reply, because the verb waits. Else identity, reply
 * frames, revision, "revokes" or "". */
static zmsg_t *run_job(crud_t *crud, const worker_args_t *args, wait_t *job)
{
    const char *own = crud->base_url;
    reply_t reply = {0};
    zmsg_t *out = NULL;
    int r;

    if (job->base)
        crud->base_url = json_string_value(job->base);
    /* The service's own periodic request has no deadline: it works in small steps. */
    pg_until(crud->pg, zframe_size(job->identity) ? until(job) : 0);
    job->waits = false;
    crud->wait = job;
    r = run_with_retry(crud, args, &job->request, &reply);
    crud->wait = NULL;
    crud->base_url = own;
    job->waits = r == VERB_WAITS;
    if (!job->waits) {
        log_request(crud, &job->request, r, zclock_usecs() - job->start_us, &reply);
        out = encode_reply(crud, &job->request, r, &reply);
    }
    if (out) {
        zmsg_prepend(out, &job->identity);
        zmsg_addstrf(out, "%" PRId64, reply.revision);
        zmsg_addstr(out, crud->revokes ? "revokes" : "");
    }
    reply_done(&reply);
    return out;
}

/* In: identity and request frames, for an empty job. Out: as run_job, or NULL because nobody waits
 * for a reply any more. */
static zmsg_t *begin_job(crud_t *crud, const worker_args_t *args, const arrival_t *arrival,
                         zmsg_t *msg, wait_t *job)
{
    zmsg_t *out;

    job->start_us = zclock_usecs();
    job->bytes = zmsg_content_size(msg);
    job->identity = zmsg_pop(msg);
    if (!job->identity)
        return NULL;
    if (request_decode(msg, &job->request)) {
        out = refuse_unreadable(&job->request);
        if (out) {
            zmsg_prepend(out, &job->identity);
            zmsg_addstr(out, "0");
            zmsg_addstr(out, "");
        }
        return out;
    }
    job->begun = true;
    job->request.deadline_ms = arrival_deadline(arrival, &job->request);
    if (is_expired(&job->request))
        return NULL;
    job->base = take_base(&job->request);
    return run_job(crud, args, job);
}

/* A request comes with frames in front: its key, "" for none, the number of its lane, the
 * account that its worker is held for, "" for none, whose turn it is, the address of its wait_t,
 * "" where it has not waited, and its arrival_t. The first four are sent back before the reply,
 * and behind them the address of a wait_t that begins, goes on, or has ended. Alone they mean
 * that there is no reply yet, or none at all. */
static zmsg_t *work_on(crud_t *crud, const worker_args_t *args, zmsg_t *msg)
{
    zmsg_t *head = zmsg_new(), *out = NULL;
    wait_t *job = NULL;
    arrival_t arrival;
    zframe_t *frame;

    for (int i = 0; i < 4; i++) {
        frame = zmsg_pop(msg);
        zmsg_append(head, &frame);
    }
    frame = zmsg_pop(msg);
    if (zframe_size(frame))
        memcpy(&job, zframe_data(frame), sizeof(void *));
    zframe_destroy(&frame);
    frame = zmsg_pop(msg);
    memcpy(&arrival, zframe_data(frame), sizeof(arrival));
    zframe_destroy(&frame);
    crud->revokes = crud->changes = false;
    if (!job) {
        job = wait_new();
        out = begin_job(crud, args, &arrival, msg, job);
    } else if (job->answered || !is_expired(&job->request)) {
        out = run_job(crud, args, job);
    } else {
        job->waits = false;
    }
    if (!job->waits && !job->admitted)
        wait_free(&job);
    zmsg_addmem(head, &job, job ? sizeof(void *) : 0);
    while (out && (frame = zmsg_pop(out)))
        zmsg_append(head, &frame);
    zmsg_destroy(&out);
    return head;
}

/* Tell the backlog, without waiting for the reactor, that the worker is free for another one. */
static void tell_done(backlog_t *backlog, zmsg_t *out)
{
    zframe_t *lane_frame, *holder_frame;
    _cleanup_(free_mem) char *lane = NULL;
    _cleanup_(free_mem) char *holder = NULL;

    (void)zmsg_first(out);
    lane_frame = zmsg_next(out);
    holder_frame = zmsg_next(out);
    lane = zframe_strdup(lane_frame);
    holder = zframe_strdup(holder_frame);
    backlog_done(backlog, (backlog_lane_t)strtol(lane, NULL, 10), holder);
}

void service_worker(zsock_t *pipe, void *context)
{
    const worker_args_t *args = context;
    zmsg_t *msg;
    crud_t crud = service_crud(args);

    if (pg_new(&crud.pg, config_str(args->config, "database-url"), args->row->name)) {
        zsock_signal(pipe, 1);
        return;
    }
    zsock_signal(pipe, 0);
    while ((msg = backlog_take(args->backlog))) {
        zmsg_t *out = work_on(&crud, args, msg);

        zmsg_destroy(&msg);
        tell_done(args->backlog, out);
        /* A lost reply would keep its flights entry for ever: wait for memory. */
        work_put_wait(args->done, &out);
        zmsg_destroy(&out);
    }
    pg_destroy(&crud.pg);
    /* Explicitly, not in a thread destructor: the process may not wait for this detached thread. */
    OPENSSL_thread_stop();
}
