/* What the config log says of the edge workers, and whether an answer need wait for them. */
#include "common/resource/edges.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

static void says(edges_t *edges, const char *word, const char *covered, const char *copies,
                 const char *acked)
{
    _cleanup_(zmsg_destroy) zmsg_t *msg = zmsg_new();
    char text[64], *rest = text;

    snprintf(text, sizeof(text), "%s", acked);
    zmsg_addstr(msg, word);
    zmsg_addstr(msg, covered);
    zmsg_addstr(msg, copies);
    zmsg_addstr(msg, "12");
    zmsg_addstr(msg, "8 5 9 7");
    for (char *one; (one = strtok_r(rest, " ", &rest));)
        zmsg_addstr(msg, one);
    edges_take(edges, msg);
}

typedef struct edges_case {
    const char *word, *covered, *acked;
    int64_t revision;
    bool have;
    int count;
    int64_t lowest;
} edges_case_t;

static const edges_case_t cases[] = {
    {"state", "9", "9 9", 9, true, 2, 9},
    {"state", "9", "9 8", 9, false, 1, 8},
    {"state", "9", "9 0", 9, false, 1, 0},
    {"state", "9", "", 9, true, 0, 0},
    {"state", "9", "12 12", 12, false, 2, 12}, /* another worker may have been told less than 12 */
    {"state", "12", "12 15", 11, true, 2, 12},
    {"settling", "9", "9 9", 9, false, 2, 9}, /* nor who else there is */
};

Test(edges, an_answer_may_go_when_all_that_there_are_have_its_revision)
{
    for (size_t i = 0; i < LEN(cases); i++) {
        edges_t edges = {0};

        says(&edges, cases[i].word, cases[i].covered, "2", cases[i].acked);
        cr_assert_eq(edges_have(&edges, cases[i].revision), cases[i].have, "%zu", i);
        cr_assert_eq(edges_acked(&edges, cases[i].revision), cases[i].count, "%zu", i);
        cr_assert_eq(edges_lowest(&edges), cases[i].lowest, "%zu", i);
        cr_assert_eq(edges.copies, 2);
        cr_assert_eq(edges.streams_ended, 12);
        cr_assert_eq(edges_ended(&edges, cases[i].revision), cases[i].revision == 9 ? 7 : 0);
    }
}

Test(edges, are_as_they_were_said_last)
{
    _cleanup_(zmsg_destroy) zmsg_t *empty = zmsg_new();
    edges_t edges = {0};

    says(&edges, "settling", "1", "3", "1 2 3");
    says(&edges, "state", "5", "0", "5");
    edges_take(&edges, empty);
    cr_assert_eq(edges.live, 1);
    cr_assert_eq(edges.copies, 0);
    cr_assert(edges_have(&edges, 5));
}

Test(edges, beyond_what_there_is_room_for_nothing_passes_as_live)
{
    edges_t *edges = calloc(1, sizeof(*edges));
    zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, "state");
    zmsg_addstr(msg, "9");
    zmsg_addstr(msg, "0");
    zmsg_addstr(msg, "0");
    zmsg_addstr(msg, "");
    for (int i = 0; i <= EDGES_MAX; i++)
        zmsg_addstr(msg, "9");
    edges_take(edges, msg);
    cr_assert_eq(edges->live, EDGES_MAX);
    cr_assert_not(edges_have(edges, 9));
    zmsg_destroy(&msg);
    free(edges);
}
