/* Whether the files that a process may have open run short. */
#include "common/base/cleanup.h"
#include "common/base/files.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT = 200 };

static int opened[LIMIT];
static int count;

static void open_until(files_watch_t *files, long want)
{
    for (files_look(files); files->open < want; files_look(files)) {
        opened[count] = dup(STDIN_FILENO);
        cr_assert_geq(opened[count++], 0);
    }
    for (; files->open > want; files_look(files))
        close(opened[--count]);
}

Test(files, run_short_near_their_limit_and_until_there_are_clearly_more)
{
    struct rlimit limit;
    files_watch_t files = {0};
    char text[200];

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = LIMIT;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    open_until(&files, LIMIT * 9 / 10 - 1);
    cr_assert_eq(files.limit, LIMIT);
    cr_assert_not(files.are_short);
    open_until(&files, LIMIT * 9 / 10);
    cr_assert(files.are_short);
    open_until(&files, LIMIT * 8 / 10);
    cr_assert(files.are_short);
    open_until(&files, LIMIT * 8 / 10 - 1);
    cr_assert_not(files.are_short);
    open_until(&files, LIMIT * 9 / 10 - 1);
    cr_assert_not(files.are_short);
    files_metrics(&files, "routes", text, sizeof(text));
    cr_assert_str_eq(text, "postern_routes_files_open 179\npostern_routes_files_limit 200\n");
}

Test(files, that_cannot_be_counted_any_more_have_run_out)
{
    struct rlimit limit = {LIMIT, LIMIT};
    files_watch_t files = {0};
    int fd;

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd = dup(STDIN_FILENO)) >= 0)
        opened[count++] = fd;
    files_look(&files);
    cr_assert_eq(files.open, LIMIT);
    cr_assert(files.are_short);
    while (count)
        close(opened[--count]);
}
