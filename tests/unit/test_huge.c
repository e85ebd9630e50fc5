/* Memory in huge pages, or in small ones where the kernel has none: it is all zero, workers share
 * it, and what lies beside it stays. */
#include "services/edge/worker/huge.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ZONE = 4 * HUGE_PAGE_BYTES };

static unsigned char *a_zone(void)
{
    unsigned char *zone =
        mmap(NULL, ZONE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(zone, MAP_FAILED);
    return zone;
}

Test(huge, begins_with_a_huge_page)
{
    unsigned char *zone = a_zone(), *begin = huge_align(zone + 1);

    cr_assert_eq((uintptr_t)begin % HUGE_PAGE_BYTES, 0);
    cr_assert(begin > zone && begin <= zone + HUGE_PAGE_BYTES);
    cr_assert_eq(huge_align(begin), begin);
}

Test(huge, what_lies_beside_it_stays)
{
    unsigned char *zone = a_zone(), *begin = huge_align(zone + 1);
    size_t bytes = 2 * HUGE_PAGE_BYTES + 12345, whole = 2 * HUGE_PAGE_BYTES;

    memset(zone, 7, ZONE);
    cr_assert(huge_map(begin, bytes));
    for (unsigned char *p = zone; p < zone + ZONE; p++)
        cr_assert_eq(*p, p >= begin && p < begin + whole ? 0 : 7, "at %td", p - begin);
}

Test(huge, less_than_a_huge_page_is_left_as_it_is)
{
    unsigned char *zone = a_zone(), *begin = huge_align(zone);

    *begin = 7;
    cr_assert(huge_map(begin, HUGE_PAGE_BYTES - 1));
    cr_assert_eq(*begin, 7);
}

Test(huge, processes_share_it)
{
    unsigned char *begin = huge_align(a_zone());
    int status;
    pid_t child;

    cr_assert(huge_map(begin, 2 * HUGE_PAGE_BYTES));
    child = fork();
    if (child == 0) {
        memset(begin, 5, 2 * HUGE_PAGE_BYTES);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    for (size_t at = 0; at < 2 * HUGE_PAGE_BYTES; at += 4096)
        cr_assert_eq(begin[at], 5);
}
