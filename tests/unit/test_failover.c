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

static backend_t *all[MOST], *shares[MOST];
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

static backend_t *look_up(void *context, const char *id, backend_t **ret_through)
{
    size_t i = place_of(id);

    (void)context;
    if (scene[i] == '-')
        return NULL;
    if (strchr("Wwh0", scene[i]))
        *ret_through = shares[i];
    return scene[i] == '0' ? NULL : all[i];
}

static bool can_dial(void *context, backend_t *backend)
{
    (void)context;
    return scene[place_of(backend->id)] != 'n';
}

static reach_answer_t ask(void *context, backend_t *backend)
{
    char what = scene[place_of(backend->id)];

    (void)context;
    return what == 'd' || what == 'w' ? REACH_DOWN : what == 't' ? REACH_TRIAL : REACH_UP;
}

static const failover_ports_t ports = {look_up, can_dial, ask};

static backend_t *set_scene(const char *letters)
{
    backend_t *failover = make_backend(0, "f");

    scene = letters;
    failover->members = slab_alloc((strlen(letters) + 1) * sizeof(*failover->members));
    for (size_t i = 0; letters[i]; i++) {
        all[i] = make_backend(i, "m");
        all[i]->http_response = letters[i] == 'r' || letters[i] == 'h';
        shares[i] = make_backend(i, "w");
        failover->members[i] = document_copy(all[i]->id, strlen(all[i]->id));
        failover->member_count++;
    }
    return failover;
}

static void strike_scene(backend_t *failover)
{
    for (size_t i = 0; scene[i]; i++) {
        cr_assert_eq(all[i]->refs, 1, "%s: member %zu is held", scene, i);
        cr_assert_eq(shares[i]->refs, 1, "%s: weighted %zu is held", scene, i);
        backend_release(all[i]);
        backend_release(shares[i]);
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
    size_t n = 0;

    failover_begin(self, backend);
    while ((next = failover_next(self, &ports, NULL))) {
        size_t i = place_of(next->id);

        cr_assert_lt(n, sizeof(tried) - 1);
        tried[n++] = (char)('0' + i % 10);
        cr_assert_eq(self->known == REACH_TRIAL, letters[i] == 't');
        cr_assert_eq(self->current->through, strchr("Wwh", letters[i]) ? shares[i] : NULL);
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
    } cases[] = {
        {"", ""},       {"s", "0"},     {"sss", "012"},  {"dss", "120"}, {"dsds", "1302"},
        {"ddd", "012"}, /* never an answer without a try */
        {"dr", "1"},    /* what answers by itself is always there */
        {"sdrs", "02"}, /* nothing is tried behind it */
        {"r", "0"},     {"-n0", ""},    {"-sn0s", "14"}, {"tss", "012"}, /* the trial, in its place */
        {"dtd", "102"}, {"WwW", "021"}, {"wh", "1"},     {"0s", "1"},    {"n-dn", "2"},
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
            if (strchr("stW", members[i]))
                first[f++] = (char)('0' + i % 10);
            else if (strchr("dw", members[i]))
                last[l++] = (char)('0' + i % 10);
        }
        first[f] = last[l] = '\0';
        snprintf(want, sizeof(want), "%s%s", first, last);
        walk(members, want);
    }
}

/* The configuration may change while a request is on its way: a member that is there no more when its
 * turn comes is not tried, and one that was looked up stays as it is. */
Test(failover, a_member_is_looked_up_when_its_turn_comes)
{
    char letters[] = "dss";
    backend_t *backend = set_scene(letters);
    failover_t *self = slab_alloc(failover_size(backend));

    failover_begin(self, backend);
    cr_assert_eq(failover_next(self, &ports, NULL), all[1]);
    letters[2] = '-';
    letters[0] = 's'; /* known as down no more; it was passed over, and is tried last */
    cr_assert_eq(failover_next(self, &ports, NULL), all[0]);
    cr_assert_null(failover_next(self, &ports, NULL));
    cr_assert_null(failover_next(self, &ports, NULL), "and again");
    failover_end(self);
    slab_free(self);
    strike_scene(backend);
}
