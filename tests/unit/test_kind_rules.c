#include "common/resource/kind_rules.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

enum { ROWS_MAX = 64 };

static int check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                 problem_t *problem)
{
    (void)crud, (void)document, (void)old, (void)references, (void)problem;
    return 0;
}

static int command(crud_t *crud, const json_t *row, const char *name, problem_t *problem)
{
    (void)crud, (void)row, (void)name, (void)problem;
    return 0;
}

/* What the program of a service has. */
static kind_rules_t rules[ROWS_MAX];
static const kind_rules_t *rows[ROWS_MAX + 1];

static size_t rows_of(const char *service)
{
    size_t n = 0;

    for (const kind_t *kind = kind_all(); kind->name; kind++)
        if (!strcmp(kind->service, service) && kind->operations & KIND_HAS_RULES) {
            rules[n] = (kind_rules_t){.kind = kind->name, .check = check, .command = command};
            rows[n] = &rules[n];
            n++;
        }
    return n;
}

static const char *kind_without_rules(void)
{
    const kind_t *kind = kind_all();

    while (kind->operations & KIND_HAS_RULES || strcmp(kind->service, "routes"))
        kind++;
    return kind->name;
}

Test(kind_rules, each_service_with_its_own_may_start)
{
    static const char *const services[] = {"routes", "identity", "events"};

    for (size_t i = 0; i < 3; i++)
        cr_expect_eq(kind_rules_check(services[i], rows, rows_of(services[i])), 0, "%s: %s",
                     services[i], fault_text());
}

Test(kind_rules, a_service_of_which_one_is_missing_does_not_start)
{
    size_t count = rows_of("routes");

    for (size_t i = 0; i < count; i++) {
        const kind_rules_t *row = rows[i];

        rows[i] = rows[count - 1];
        cr_expect_neq(kind_rules_check("routes", rows, count - 1), 0, "%s",
                      i + 1 < count ? row->kind : rows[count - 1]->kind);
        cr_expect(strstr(fault_text(), row->kind) && strstr(fault_text(), "not in this program"),
                  "%s", fault_text());
        rows[i] = row;
    }
    cr_expect_lt(kind_rules_check("identity", NULL, 0), 0, "none at all, as a linker drops them");
}

static void expect_refused(const char *kind, const char *why)
{
    const kind_rules_t more = {.kind = kind, .check = check, .command = command};
    size_t count = rows_of("routes");

    rows[count] = &more;
    cr_expect_lt(kind_rules_check("routes", rows, count + 1), 0, "%s", kind);
    cr_expect(strstr(fault_text(), why), "%s: %s", kind, fault_text());
}

Test(kind_rules, a_row_too_many_is_refused)
{
    expect_refused("static_backent", "no such kind");
    expect_refused("vault", "another service");
    expect_refused("static_backend", "given twice");
    expect_refused(kind_without_rules(), "HAS_RULES");
}

Test(kind_rules, a_row_with_nothing_in_it_is_as_bad_as_none)
{
    size_t count = rows_of("routes");

    for (size_t i = 0; i < count; i++) {
        rules[i].check = NULL, rules[i].command = NULL;
        cr_expect_lt(kind_rules_check("routes", rows, count), 0, "%s", rules[i].kind);
        rules[i].check = check;
        cr_expect_eq(kind_rules_check("routes", rows, count) == 0,
                     strcmp(rules[i].kind, "tunnel_session") != 0, "%s: %s", rules[i].kind,
                     fault_text());
        rules[i].command = command;
    }
}

/* This program has no kind's rules. */
Test(kind_rules, a_program_without_them_is_refused_and_a_kind_with_some_is_not_served)
{
    cr_assert_lt(kind_rules_check_own("routes"), 0);
    cr_assert_null(kind_rules_find(kind_find(kind_without_rules())));
}

Test(kind_rules, a_kind_that_has_some_is_never_served_without, .signal = SIGABRT)
{
    kind_rules_find(kind_find("static_backend"));
}
