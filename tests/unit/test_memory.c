/* Batches in shared memory: what may be read, and what is gone. */
#include "common/schema/event_memory.h"
#include "services/events/memory.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/postern-memory-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

enum { TAIL = EVENT_MEMORY_HEAD, BODY = TAIL + 8 };

/* Of edge eu/1: the tail behind the head, then the body "events". */
static void write_file(const char *name, uint64_t tail)
{
    static const event_memory_head_t head = {.magic = EVENT_MEMORY_MAGIC, .name = "eu/1"};
    FILE *file = fopen(path_of(name), "w");

    fwrite(&head, sizeof(head), 1, file);
    fseek(file, TAIL, SEEK_SET);
    fwrite(&tail, sizeof(tail), 1, file);
    fputs("events", file);
    fchmod(fileno(file), 0600);
    fclose(file);
}

static void make_dir(void)
{
    cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
    static const char *const names[] = {"secret",
                                        "postern-events-0a",
                                        "postern-events-0b",
                                        "postern-events-0c",
                                        "postern-events-1f",
                                        "postern-events-2d"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        remove(path_of(names[i]));
    rmdir(dir);
}

static int fetch(const char *name, int64_t len, int64_t body, int64_t at, zframe_t **ret_body)
{
    batch_t batch = {.producer = "eu/1/0/5f", .len = len, .body = body, .tail = TAIL, .at = at};

    snprintf(batch.memory, sizeof(batch.memory), "%s", name);
    *ret_body = NULL;
    return memory_fetch(dir, &batch, ret_body);
}

Test(memory, a_batch_is_read_while_it_is_there, .init = make_dir, .fini = remove_dir)
{
    static const char name[] = "postern-events-0a";
    zframe_t *body;

    write_file(name, 100);
    cr_assert_eq(fetch(name, 6, BODY, 100, &body), 0);
    cr_assert(zframe_streq(body, "events"));
    zframe_destroy(&body);
    cr_assert_eq(fetch(name, 6, BODY, 99, &body), -ESTALE, "freed meanwhile");
    cr_assert_eq(fetch(name, 7, BODY, 100, &body), -ESTALE, "past the end");
    cr_assert_eq(fetch(name, -1, BODY, 100, &body), -ESTALE);
    cr_assert_eq(fetch(name, 6, -8, 100, &body), -ESTALE);
    cr_assert_eq(fetch(name, (16 << 20) + 1, BODY, 100, &body), -ESTALE);
}

Test(memory, nothing_else_is_ever_opened, .init = make_dir, .fini = remove_dir)
{
    static const char *const names[] = {"",
                                        "secret",
                                        "../secret",
                                        "postern-events-../secret",
                                        "postern-events-/../secret",
                                        "postern-events-0A",
                                        "postern-events-0b",
                                        "postern-events-1f",
                                        "postern-events-2d",
                                        "postern-events-99"};
    const batch_t there = {.memory = "postern-events-0c", .len = 6, .body = BODY};
    zframe_t *body;

    write_file("secret", 0);
    cr_assert_eq(symlink("secret", path_of("postern-events-0b")), 0);
    cr_assert_eq(mkfifo(path_of("postern-events-1f"), 0600), 0);
    cr_assert_eq(mkdir(path_of("postern-events-2d"), 0700), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_eq(fetch(names[i], 6, BODY, 0, &body), -EACCES, "%s", names[i]);
    write_file("postern-events-0c", 0);
    cr_assert_eq(chmod(path_of("postern-events-0c"), 0602), 0);
    cr_assert_eq(fetch("postern-events-0c", 6, BODY, 0, &body), -EACCES, "others write there");
    cr_assert_eq(chmod(path_of("postern-events-0c"), 0600), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(path_of("postern-events-0c"), 65534, 65534), 0);
        cr_assert_eq(fetch("postern-events-0c", 6, BODY, 0, &body), -EACCES, "a stranger's");
        cr_assert_eq(chown(path_of("postern-events-0c"), 0, 0), 0);
    }
    cr_assert_eq(memory_fetch("", &there, &body), -EACCES, "no directory is set");
    cr_assert_eq(memory_fetch(NULL, &there, &body), -EACCES);
}

struct owner_case {
    char producer[64];
    int want;
};

ParameterizedTestParameters(memory, is_of_the_edge_that_made_it)
{
    static struct owner_case cases[] = {
        {"eu/1/0/5f", 0},        {"eu/1/63/0", 0},        {"eu/2/0/5f", -EPERM},
        {"us/0/5f", -EPERM},     {"eu/0/5f", -EPERM},     {"eu/1", -EPERM},
        {"eu/1/0", -EPERM},      {"eu/1/", -EPERM},       {"eu/10/0/5f", -EPERM},
        {"eu/1/x/0/5f", -EPERM}, {"x/eu/1/0/5f", -EPERM}, {"", -EPERM},
    };
    return cr_make_param_array(struct owner_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct owner_case *one, memory, is_of_the_edge_that_made_it, .init = make_dir,
                  .fini = remove_dir)
{
    batch_t batch = {.memory = "postern-events-0a", .len = 6, .body = BODY, .tail = TAIL, .at = 9};
    zframe_t *body = NULL;

    snprintf(batch.producer, sizeof(batch.producer), "%s", one->producer);
    write_file("postern-events-0a", 0);
    cr_assert_eq(memory_fetch(dir, &batch, &body), one->want, "%s", one->producer);
    zframe_destroy(&body);
}

Test(memory, a_file_without_a_whole_head_is_nobody_s, .init = make_dir, .fini = remove_dir)
{
    zframe_t *body;
    FILE *file;

    write_file("postern-events-0a", 0);
    cr_assert_eq(truncate(path_of("postern-events-0a"), sizeof(event_memory_head_t) - 1), 0);
    cr_assert_eq(fetch("postern-events-0a", 6, BODY, 9, &body), -EPERM);
    write_file("postern-events-0c", 0);
    file = fopen(path_of("postern-events-0c"), "r+");
    fputs("another layout", file);
    fclose(file);
    cr_assert_eq(fetch("postern-events-0c", 6, BODY, 9, &body), -EPERM);
}
