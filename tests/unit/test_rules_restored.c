/* What postern-routes says of the rules that are in force: only a revision that is one counts. */
#include "services/identity/rules_restored.h"
#include "common/base/cleanup.h"
#include "services/identity/rules_newest.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define PLACE "r1 oidc m1"

/* One that asked while revision 9 was the newest that was known. */
static run_t *a_question(void)
{
    run_t *run = run_new();

    run->sealed.route = "r1";
    run->sealed.module = "oidc";
    run->sealed.all = json_pack("{s:{s:s}}", "config", "made_id", "m1");
    run->sealed.config = json_object_get(run->sealed.all, "config");
    run->lost_to = 9;
    rules_newest_note(PLACE, 9);
    return run;
}

static void take_said(const char *said)
{
    _cleanup_(run_free) run_t *run = a_question();
    wait_answer_t came = {.said = said ? json_loads(said, 0, NULL) : NULL};

    cr_assert(!said || came.said, "%s", said);
    rules_restored_take(run, &came);
    cr_expect_eq(run->lost_to, 0, "it asks no more: %s", said ? said : "nothing");
    json_decref(came.said);
}

Test(rules_restored, what_is_no_revision_makes_none_lost)
{
    static const char *const cases[] = {
        NULL,
        "{}",
        "[5]",
        "{\"revisions\": null}",
        "{\"revisions\": 5}",
        "{\"revisions\": \"5\"}",
        "{\"revisions\": {\"0\": 5}}",
        "{\"revisions\": []}",
        "{\"revisions\": [null, 5]}",
        "{\"revisions\": [\"5\"]}",
        "{\"revisions\": [true]}",
        "{\"revisions\": [5.0]}",
        "{\"revisions\": [[5]]}",
        "{\"revisions\": [{\"revision\": 5}]}",
        "{\"revisions\": [0]}",
        "{\"revisions\": [-5]}",
        "{\"revisions\": [-9223372036854775808]}",
        "{\"revisions\": [9]}",
        "{\"revisions\": [9223372036854775807]}",
        "{\"gone\": [0], \"revision\": [5]}",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        take_said(cases[i]);
        cr_expect_eq(rules_newest_known(PLACE), 9, "%s", cases[i] ? cases[i] : "nothing");
        cr_expect_not(rules_newest_is_lost(PLACE, 9), "%s", cases[i] ? cases[i] : "nothing");
    }
}

Test(rules_restored, no_answer_makes_none_lost)
{
    _cleanup_(run_free) run_t *run = a_question();

    rules_restored_take(run, NULL);
    cr_expect_eq(run->lost_to, 0);
    cr_expect_eq(rules_newest_known(PLACE), 9);
}

Test(rules_restored, a_revision_before_what_was_known_makes_what_is_above_it_lost)
{
    take_said("{\"gone\": [], \"revisions\": [5, 7]}");
    cr_expect_eq(rules_newest_known(PLACE), 5);
    cr_expect_eq(rules_newest_in_force(PLACE), 5);
    cr_expect(rules_newest_is_lost(PLACE, 6));
    cr_expect(rules_newest_is_lost(PLACE, 9));
    cr_expect_not(rules_newest_is_lost(PLACE, 5));
}
