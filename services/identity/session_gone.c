#include "services/identity/session_gone.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "services/identity/gone_turns.h"
#include "services/identity/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    PLACES_STEP = GONE_PLACES_MAX, /* in one question */
    QUESTIONS_MAX = 40,            /* of one sweep: what is left has its turn with the next one */
    ENDED_MAX = 10000,             /* of one sweep, about: each place that is gone has a turn */
    FILLED_STEP = 1000,            /* rows of a version that did not note places */
    FILLED_STEPS = 20,             /* of one sweep */
    ASK_MS = 5000,
    LEFT_MS = 15000 /* of the deadline: with less, the sweep goes on next time */
};

/* For whose sake postern-routes is asked: nobody's of the accounts. */
#define OWNER "sessions"

/* Set once, before the workers start. */
static int64_t period_ms;
/* Monotonic. One sweep runs at a time of this process; of several copies each does its own, and
 * what another has ended is ended. */
static _Atomic int64_t next_ms;
/* Where the next sweep begins: the worker that runs one alone writes it. */
static char next_place[SESSION_PLACE_SIZE];

void session_gone_setup(const config_t *config)
{
    period_ms = 1000 * (int64_t)config_int(config, "gone-routes-seconds");
    atomic_store(&next_ms, bus_mono_ms() + period_ms);
}

/* A sweep, while postern-routes is asked. */
typedef struct sweep {
    json_t *places; /* that the question is about, in their order */
    bool is_last;   /* there are none behind them */
    int questions;
    int64_t ended;
} sweep_t;

static void sweep_free(void **state_p)
{
    sweep_t *self = take(*state_p);

    if (!self)
        return;
    json_decref(self->places);
    free(self);
}

/* ---- places ---- */

/* Sessions of versions that did not note at which host and behind what prefix their cookies were
 * set, or where they were made: then their modules had no made_id. The host is known, the prefix is
 * not. */
static int fill_places(crud_t *crud)
{
    char step[16];
    int r = 0;

    snprintf(step, sizeof(step), "%d", FILLED_STEP);
    for (int i = 0; !r && i < FILLED_STEPS; i++) {
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(crud->pg, &res,
                    "UPDATE sign_in_session s SET counts_at = "
                    "     coalesce(s.place, format('%s %s ', a.route_id, s.module)) || '  ' "
                    "     || split_part(split_part(a.public_url, '://', 2), ':', 1) "
                    "FROM application_session a WHERE a.id = s.session_id AND s.session_id IN "
                    "(SELECT session_id FROM sign_in_session WHERE counts_at IS NULL "
                    "ORDER BY session_id LIMIT $1::int FOR UPDATE SKIP LOCKED) RETURNING 1",
                    1, step);
        if (!r && PQntuples(res) < FILLED_STEP)
            break;
    }
    return r;
}

/* The next ones, each once: from one to the next in the index, however many sessions each has. */
static int load_places(crud_t *crud, const char *after, json_t **ret_places)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char most[16];
    int r;

    snprintf(most, sizeof(most), "%d", PLACES_STEP);
    r = pg_exec(crud->pg, &res,
                "WITH RECURSIVE p AS ((SELECT counts_at AS place FROM sign_in_session "
                "     WHERE counts_at > $1 ORDER BY counts_at LIMIT 1) "
                "UNION ALL SELECT (SELECT s.counts_at FROM sign_in_session s "
                "     WHERE s.counts_at > p.place ORDER BY s.counts_at LIMIT 1) "
                "     FROM p WHERE p.place IS NOT NULL) "
                "SELECT place FROM p WHERE place IS NOT NULL LIMIT $2::int",
                2, after, most);
    if (r)
        return r;
    *ret_places = json_array();
    for (int i = 0; i < PQntuples(res); i++)
        json_array_append_new(*ret_places, json_string(PQgetvalue(res, i, 0)));
    return 0;
}

/* ---- the end ---- */

static int find_sessions(crud_t *crud, const char *place, int most, PGresult **ret_res)
{
    char limit[12];

    snprintf(limit, sizeof(limit), "%d", most);
    return pg_exec(crud->pg, ret_res,
                   "SELECT s.session_id, u.id, " SESSION_SUBJECT ", a.account_id "
                   "FROM sign_in_session s "
                   "JOIN application_session a ON a.id = s.session_id "
                   "JOIN application_user u ON u.id = a.application_user_id "
                   "WHERE s.counts_at = $1 ORDER BY 1 LIMIT $2::int",
                   2, place, limit);
}

/* End up to so many of them. */
static int end_batch(crud_t *crud, const char *place, int most, reply_t *reply, int *ret_count)
{
    _cleanup_(pgresult_clear) PGresult *found = NULL;
    int64_t revision = 0;
    int r = crud_begin(crud);

    crud->request_key[0] = '\0';
    if (!r)
        r = find_sessions(crud, place, most, &found);
    if (!r && PQntuples(found))
        r = session_end_found(crud, PQgetvalue(found, 0, 3), "ROUTE", found, &reply->problem);
    *ret_count = r ? 0 : PQntuples(found);
    r = crud_end(crud, r, &revision);
    if (r)
        *ret_count = 0;
    if (revision)
        reply->revision = revision;
    return r;
}

/* Those of the places that the question was about which postern-routes says are gone. */
typedef struct gone {
    crud_t *crud;
    reply_t *reply;
    const char *places[PLACES_STEP];
    size_t count;
} gone_t;

/* A turn of one. What is wrong with it is no reason to leave out the others. */
static int end_some(void *context, size_t number, int most, int *ret_count)
{
    const gone_t *self = context;
    int r = end_batch(self->crud, self->places[number], most, self->reply, ret_count);

    if (!r || r == PG_DOWN)
        return r;
    log_warn("sessions of %s, which is gone, cannot be ended now: %s", self->places[number],
             r == PG_AGAIN || r > 0 ? outcome_name(r) : fault_text());
    problem_done(&self->reply->problem);
    self->reply->problem = (problem_t){0};
    return 0;
}

static void set_gone(gone_t *self, const sweep_t *sweep, const json_t *said)
{
    const json_t *number;
    size_t i;

    json_array_foreach(json_object_get(said, "gone"), i, number)
    {
        const char *place = json_is_integer(number) ? json_string_value(
                                json_array_get(sweep->places, (size_t)json_integer_value(number)))
                                                    : NULL;

        if (place && self->count < LEN(self->places))
            self->places[self->count++] = place;
    }
}

/* ---- the sweep ---- */

static bool is_to_go_on(const crud_t *crud, const sweep_t *sweep)
{
    return !sweep->is_last && sweep->questions < QUESTIONS_MAX && sweep->ended < ENDED_MAX
           && crud->request->deadline_ms - bus_mono_ms() > LEFT_MS;
}

/* Ask about the next places. 0: there are none, and the next sweep begins anew | VERB_WAITS |
 * fault. */
static int ask_next(crud_t *crud, sweep_t **sweep_p)
{
    _cleanup_(json_clear_ref) json_t *places = NULL;
    sweep_t *sweep = *sweep_p;
    void *state = sweep;
    int r = load_places(crud, next_place, &places);

    if (r)
        return r;
    if (!json_array_size(places)) {
        next_place[0] = '\0';
        return 0;
    }
    json_decref(sweep->places);
    sweep->places = take(places);
    sweep->questions++;
    r = crud_ask(crud, OWNER, "sign_in_module.gone", json_pack("{s:O}", "places", sweep->places),
                 ASK_MS, &state, sweep_free);
    *sweep_p = state;
    return r;
}

/* After an answer: the sessions end, and the next sweep begins behind these places, also where one
 * of them has more: its turn comes again. */
static int take_answer(crud_t *crud, sweep_t *sweep, const wait_answer_t *came, reply_t *reply)
{
    const json_t *last = json_array_get(sweep->places, json_array_size(sweep->places) - 1);
    gone_t gone = {.crud = crud, .reply = reply};
    int r;

    if (came->code || !json_is_array(json_object_get(came->said, "gone"))) {
        log_warn("whether routes of sessions are there still cannot be said: postern-routes %s",
                 came->code == ERR_UNKNOWN_VERB ? "is of an older version" : "does not answer");
        sweep->questions = QUESTIONS_MAX;
        return 0;
    }
    set_gone(&gone, sweep, came->said);
    r = gone_take_turns(gone.count, ENDED_MAX, end_some, &gone, &sweep->ended);
    sweep->is_last = json_array_size(sweep->places) < PLACES_STEP;
    if (!r)
        snprintf(next_place, sizeof(next_place), "%s",
                 sweep->is_last ? "" : json_string_value(last));
    return r;
}

static sweep_t *begin_sweep(crud_t *crud, int *ret_r)
{
    const int64_t now = bus_mono_ms();

    *ret_r = 0;
    if (now < atomic_load(&next_ms))
        return NULL;
    atomic_store(&next_ms, now + period_ms);
    *ret_r = fill_places(crud);
    return *ret_r ? NULL : memory_new(sizeof(sweep_t), "a sweep of sessions");
}

int session_gone_tidy(crud_t *crud, reply_t *reply, int64_t *ret_count)
{
    const wait_answer_t *came;
    sweep_t *sweep = crud_resumed(crud, &came), *fresh = NULL;
    int r = 0;

    if (!sweep)
        sweep = fresh = begin_sweep(crud, &r);
    if (sweep && came)
        r = take_answer(crud, sweep, came, reply);
    if (!r && sweep && is_to_go_on(crud, sweep))
        r = ask_next(crud, fresh ? &fresh : &sweep);
    *ret_count = sweep && r != VERB_WAITS ? sweep->ended : 0;
    if (*ret_count)
        log_info("%" PRId64
                 " sessions have ended, whose routes, modules, cookies or hosts are gone",
                 *ret_count);
    sweep_free((void *)&fresh);
    return r;
}
