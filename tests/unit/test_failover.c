#include "services/edge/http/failover.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"

#include <criterion/criterion.h>
#include <string.h>

/* Members of a scene: a letter each.
 *   s static, and reached    d known as down    t down, and this request is the trial
 *   n without an address     r http_response    - not there
 *   W weighted, leads to a static one           w weighted, leads to one that is down
 *   h weighted, leads to http_response          0 weighted, leads to none */
enum { MOST = 100 };

static backend_t *all[MOST];
static const char *scene;

static backend_t *make_backend(size_t i, const char *prefix)
{
    backend_t *backend = slab_alloc(sizeof(*backend));
    char id[16];

    snprintf(id, sizeof(id), "%s%zu", prefix, i);
    backend->refs = 1;
    backend->id = document_copy(id, strlen(id));
    return backend;
}

static size_t place_of(const char *id)
{
    return strtoul(id + 1, NULL, 10);
}

static const backend_t *was[MOST]; /* what the last look-up was told that the member had been */

static backend_t *look_up(void *context, const char *id, const backend_t *before)
{
    size_t i = place_of(id);

    (void)context;
    was[i] = before;
    return scene[i] == '-' || scene[i] == '0' ? NULL : all[i];
}

static bool can_dial(void *context, backend_t *backend)
{
    (void)context;
    return scene[place_of(backend->id)] != 'n';
}

static size_t taken; /* trials */

static reach_answer_t ask(void *context, backend_t *backend, bool take)
{
    char what = scene[place_of(backend->id)];

    (void)context;
    taken += take && what == 't';
    return what == 'd' || what == 'w' ? REACH_DOWN : what == 't' ? REACH_TRIAL : REACH_UP;
}

static uint64_t begin_with; /* of those that were passed over */

static uint64_t turn(void *context, backend_t *failover)
{
    (void)context;
    (void)failover;
    return begin_with;
}

static const failover_ports_t ports = {look_up, can_dial, ask, turn};

/* As a request does: the first member is chosen, and then dialled. */
static backend_t *step(failover_t *self, size_t n, uint64_t now)
{
    backend_t *chosen;

    if (n)
        return failover_next(self, &ports, NULL, now);
    chosen = failover_choose(self, &ports, NULL);
    return chosen && !chosen->http_response ? failover_dial(self, &ports, NULL, now) : chosen;
}

static backend_t *set_scene(const char *letters)
{
    backend_t *failover = make_backend(0, "f");

    scene = letters;
    taken = 0;
    failover->members = slab_alloc((strlen(letters) + 1) * sizeof(*failover->members));
    for (size_t i = 0; letters[i]; i++) {
        all[i] = make_backend(i, "m");
        all[i]->http_response = letters[i] == 'r' || letters[i] == 'h';
        failover->members[i] = document_copy(all[i]->id, strlen(all[i]->id));
        failover->member_count++;
    }
    return failover;
}

static void strike_scene(backend_t *failover)
{
    for (size_t i = 0; scene[i]; i++) {
        cr_assert_eq(all[i]->refs, 1, "%s: member %zu is held", scene, i);
        backend_release(all[i]);
    }
    cr_assert_eq(failover->refs, 1);
    backend_release(failover);
}

/* The members that a request tries where no dial ever comes through. */
static void walk(const char *letters, const char *want)
{
    backend_t *backend = set_scene(letters), *next;
    failover_t *self = slab_alloc(failover_size(backend));
    char tried[2 * MOST + 1] = "";
    bool had_trial = false;
    size_t n = 0;

    failover_begin(self, backend);
    while ((next = step(self, n, 0))) {
        size_t i = place_of(next->id);

        cr_assert_lt(n, sizeof(tried) - 1);
        tried[n++] = (char)('0' + i % 10);
        cr_assert_eq(self->known == REACH_TRIAL, letters[i] == 't' && !had_trial);
        had_trial |= letters[i] == 't';
        cr_assert_eq(taken, had_trial, "a request has one trial at most");
        if (next->http_response)
            break;
    }
    cr_assert_str_eq(tried, want, "%s: %s, not %s", letters, tried, want);
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}

Test(failover, members_are_tried_in_order_and_those_that_are_down_at_the_end)
{
    static const struct {
        const char *members, *tried;
    } cases
        [] =
            {
                {"", ""},         {"s", "0"},
                {"sss", "012"},   {"dss", "120"},
                {"dsds", "1302"}, {"ddd", "012"}, /* never an answer without a try */
                {"dr", "1"},                      /* what answers by itself is always there */
                {"sdrs", "02"},                   /* nothing is tried behind it */
                {"r", "0"},       {"-n0", ""},
                {"-sn0s", "14"},  {"tss", "012"}, /* the trial, in its place */
                {"dtd", "102"},   {"tst", "012"},
                {"ttst", "0213"}, {"dtts", "1302"},
                {"WwW", "021"},   {"wh", "1"},
                {"0s", "1"},      {"n-dn", "2"},
            };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        walk(cases[i].members, cases[i].tried);
}

/* What any walk promises, for random members. */
Test(failover, no_member_is_tried_twice_nor_left_out)
{
    static const char letters[] = "sdtn-WwO0";

    srandom(7);
    for (int round = 0; round < 5000; round++) {
        char members[MOST + 1] = "", first[MOST + 1], last[MOST + 1], want[2 * MOST + 2];
        size_t n = (size_t)random() % 12, f = 0, l = 0;

        for (size_t i = 0; i < n; i++) {
            members[i] = letters[(size_t)random() % (sizeof(letters) - 1)];
            if (members[i] == 'O')
                members[i] = 's';
            if (strchr("sW", members[i]) || strchr(members, 't') == members + i)
                first[f++] = (char)('0' + i % 10);
            else if (strchr("tdw", members[i]))
                last[l++] = (char)('0' + i % 10);
        }
        first[f] = last[l] = '\0';
        snprintf(want, sizeof(want), "%s%s", first, last);
        walk(members, want);
    }
}

/* The configuration may change while a request is on its way: a member that is there no more when its
 * turn comes is not tried, be it the first turn or the one of a member that was passed over. */
Test(failover, a_member_is_looked_up_when_its_turn_comes)
{
    char letters[] = "dssd";
    backend_t *backend = set_scene(letters);
    failover_t *self = slab_alloc(failover_size(backend));

    failover_begin(self, backend);
    cr_assert_eq(step(self, 0, 0), all[1]);
    letters[2] = '-';
    letters[0] = 's'; /* known as down no more; it was passed over, and is tried last */
    letters[3] = 'd';
    cr_assert_eq(step(self, 1, 0), all[0]);
    letters[3] = '-'; /* deleted since it was passed over */
    cr_assert_null(step(self, 2, 0));
    cr_assert_null(step(self, 3, 0), "and again");
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}

Test(failover, a_member_that_was_passed_over_is_tried_in_the_version_of_the_moment)
{
    backend_t *backend = set_scene("ds"), *old = all[0];
    failover_t *self = slab_alloc(failover_size(backend));

    failover_begin(self, backend);
    cr_assert_eq(step(self, 0, 0), all[1]);
    all[0] = make_backend(0, "m"); /* it has another address by now */
    cr_assert_eq(step(self, 1, 0), all[0]);
    cr_assert_eq(was[0], old, "a weighted member may be the same one's turn");
    cr_assert_eq(old->refs, 1, "the old version is let go of");
    backend_release(old);
    cr_assert_null(step(self, 2, 0));
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}

/* How many of so many members with this letter a request dials, a millisecond or so after the other;
 * then, whether the last member answers. */
static void dial(char letter, size_t members, uint64_t ms, size_t want)
{
    char letters[MOST + 1] = "";
    backend_t *backend, *next;
    failover_t *self;
    size_t n = 0;

    memset(letters, letter, members);
    backend = set_scene(letters);
    self = slab_alloc(failover_size(backend));
    failover_begin(self, backend);
    while ((next = step(self, n, 1000 + n * ms)) && !next->http_response)
        n++;
    cr_assert_eq(n, want, "%zu of %zu with %c", n, members, letter);
    cr_assert_eq(self->cut, want < members);
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}

Test(failover, a_request_has_so_many_dials_and_so_much_time_for_them)
{
    for (const char *letter = "sdt"; *letter; letter++) {
        dial(*letter, MOST, 1, FAILOVER_DIALS_MAX);
        dial(*letter, FAILOVER_DIALS_MAX + 1, 1, FAILOVER_DIALS_MAX);
        dial(*letter, FAILOVER_DIALS_MAX, 1, FAILOVER_DIALS_MAX);
        dial(*letter, 3, FAILOVER_DIALS_MS - 1, 2);
        dial(*letter, 3, FAILOVER_DIALS_MS, 1);
        dial(*letter, MOST, FAILOVER_DIALS_MS / 6, 6);
    }
}

Test(failover, what_answers_by_itself_does_so_behind_the_bounds)
{
    for (const char *letter = "sdt-n"; *letter; letter++) {
        char letters[MOST + 1] = "";
        backend_t *backend;
        failover_t *self;
        size_t n = 0;

        memset(letters, *letter, 50);
        letters[40] = 'r';
        backend = set_scene(letters);
        self = slab_alloc(failover_size(backend));
        failover_begin(self, backend);
        while (step(self, n, 0) != all[40])
            cr_assert_lt(n++, FAILOVER_DIALS_MAX);
        failover_end(self);
        slab_free(self);
        strike_scene(backend);
    }
}

/* A dead row of any length in front of a member must not keep requests from it for ever. */
Test(failover, members_that_were_left_out_are_reached_by_later_requests)
{
    char letters[MOST + 1] = "";
    backend_t *backend;

    memset(letters, 't', MOST);
    letters[60] = 's';
    backend = set_scene(letters);
    for (size_t i = 0; i < MOST; i++) { /* each is the first one of some request */
        failover_t *self = slab_alloc(failover_size(backend));

        begin_with = i;
        letters[60] = i % 2 ? 's' : 't';
        failover_begin(self, backend);
        cr_assert_eq(step(self, 0, 0), all[0], "the trial of one that is down");
        if (i % 2)
            cr_assert_eq(step(self, 1, 0), all[60], "one that is not known as down, wherever");
        else
            cr_assert_eq(step(self, 1, 0), all[i ? i : 1]);
        failover_end(self);
        slab_free(self);
    }
    begin_with = 0;
    strike_scene(backend);
}

Test(failover, a_trial_is_taken_when_its_dial_begins)
{
    char letters[] = "ts";
    backend_t *backend = set_scene(letters);
    failover_t *self = slab_alloc(failover_size(backend));

    failover_begin(self, backend);
    cr_assert_eq(failover_choose(self, &ports, NULL), all[0]);
    cr_assert_eq(taken, 0);
    letters[0] = 'd'; /* another request takes it meanwhile */
    cr_assert_eq(failover_dial(self, &ports, NULL, 0), all[1]);
    cr_assert_eq(self->passed, 1);
    letters[0] = 't';
    cr_assert_eq(failover_next(self, &ports, NULL, 0), all[0], "it was passed over");
    cr_assert_neq(self->known, REACH_TRIAL);
    cr_assert_eq(taken, 0);
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}
