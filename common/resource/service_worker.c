/* A worker: a thread with a database connection of its own, which takes requests and runs their
 * verbs. */
#include "common/resource/service_internal.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/bus/deadline.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum {
    RETRY_MS = 50,
    SLOW_US = 250000 /* a read that took longer is logged */
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
        if (r == PG_DOWN)
            usleep(RETRY_MS * 1000);
    }
}

/* Log changes, refusals and slow requests. Successful reads have a line in the gateway's log. */
static void log_request(const crud_t *crud, const request_t *request, int r, int64_t us,
                        const reply_t *reply)
{
    char verb[140], id[140];

    if (r == 0 && !crud->changes && us < SLOW_US)
        return;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    if (r < 0)
        log_error("verb=%s req=%s r=FAULT us=%" PRId64 " fault=\"%s\"", verb, id, us, fault_text());
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

/* Has the request's deadline passed, so that nobody waits for a reply? Also sets the deadline. */
static bool is_expired(const arrival_t *arrival, request_t *request)
{
    int64_t now = bus_mono_ms();
    char verb[140], id[140];

    request->deadline_ms = arrival_deadline(arrival, request);
    if (request->deadline_ms > now)
        return false;
    log_quote(request->verb, strlen(request->verb), verb, sizeof(verb));
    log_quote(request->id, strlen(request->id), id, sizeof(id));
    log_warn("verb=%s req=%s is dropped: whoever sent it gave up %" PRId64 " ms ago", verb, id,
             now - request->deadline_ms);
    return true;
}

/* In: identity and request frames. Out: identity, reply frames, revision, "revokes" or "". */
static zmsg_t *handle_request(crud_t *crud, const worker_args_t *args, const arrival_t *arrival,
                              zmsg_t *msg)
{
    zframe_t *identity = zmsg_pop(msg);
    int64_t start = zclock_usecs();
    request_t request;
    reply_t reply = {0};
    zmsg_t *out = NULL;
    int r;

    crud->revokes = crud->changes = false;
    if (!identity) {
        return NULL;
    } else if (request_decode(msg, &request)) {
        out = refuse_unreadable(&request);
    } else if (!is_expired(arrival, &request)) {
        json_t *base = take_base(&request);
        const char *own = crud->base_url;

        if (base)
            crud->base_url = json_string_value(base);
        /* The service's own periodic request has no deadline: it works in small steps. */
        pg_until(crud->pg, zframe_size(identity) ? request.deadline_ms : 0);
        r = run_with_retry(crud, args, &request, &reply);
        crud->base_url = own;
        json_decref(base);
        log_request(crud, &request, r, zclock_usecs() - start, &reply);
        if (r)
            reply.revision = 0;
        if (r > 0 && r != ERR_MAINTENANCE)
            crud->revokes = false; /* refused; any other failure may have been committed */
        if (r < 0)
            r = ERR_INTERNAL;
        if (r) {
            reply_drop_body(&reply);
            if (!reply.problem.code)
                reply.problem.code = r;
        } else {
            problem_done(&reply.problem);
            reply.problem.code = 0;
        }
        out = reply_encode(request.id, &reply);
    }
    if (out) {
        zmsg_prepend(out, &identity);
        zmsg_addstrf(out, "%" PRId64, reply.revision);
        zmsg_addstr(out, crud->revokes ? "revokes" : "");
    }
    zframe_destroy(&identity);
    reply_done(&reply);
    request_done(&request);
    return out;
}

/* A request comes with four frames in front: its key, "" for none, the number of its lane, the
 * account that its worker is held for, "" for none, and its arrival_t. The first three are sent
 * back before the reply; alone they mean that there is no reply. */
static zmsg_t *work_on(crud_t *crud, const worker_args_t *args, zmsg_t *msg)
{
    zframe_t *key = zmsg_pop(msg), *lane = zmsg_pop(msg), *holder = zmsg_pop(msg),
             *came = zmsg_pop(msg);
    arrival_t arrival;
    zmsg_t *out;

    memcpy(&arrival, zframe_data(came), sizeof(arrival));
    zframe_destroy(&came);
    out = handle_request(crud, args, &arrival, msg);

    if (!out)
        out = zmsg_new();
    zmsg_prepend(out, &holder);
    zmsg_prepend(out, &lane);
    zmsg_prepend(out, &key);
    return out;
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
        /* A lost reply would keep its lane's slot and its flights entry for ever: wait for
         * memory. */
        work_put_wait(args->done, &out);
        zmsg_destroy(&out);
    }
    pg_destroy(&crud.pg);
    /* Explicitly, not in a thread destructor: the process may not wait for this detached thread. */
    OPENSSL_thread_stop();
}
